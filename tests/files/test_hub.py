"""Models by their name: the real client against a hub on the loopback interface."""

import json
import resource

import pytest
from helpers.loopback_hub import COMMIT, LoopbackHub, asked_by_the_client
from huggingface_hub import constants

from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.files.hub import MODELS, SHORT_NAMES, chosen_files, located, origin_of

NAME = "google-bert/bert-base-uncased"


@pytest.fixture
def folder(tmp_path):
    """A repository with what people upload."""
    folder = tmp_path / "repository"
    for name in ("config.json", "tokenizer.json", "vocab.txt", "README.md", "onnx/model.onnx", "1_Pooling/config.json"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": name}))
    for name in ("model.safetensors", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"):
        (folder / name).write_bytes(name.encode() * 5000)
    return folder


@pytest.fixture
def hub(folder, tmp_path, monkeypatch):
    """A hub with this repository, and an empty cache."""
    with asked_by_the_client(LoopbackHub({NAME: folder}), monkeypatch, tmp_path / "cache") as hub:
        yield hub


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_only_what_is_read_is_downloaded_and_once(hub, folder):
    path = located("bert-base-uncased")
    small = ["1_Pooling/config.json", "README.md", "config.json", "model.safetensors", "tokenizer.json", "vocab.txt"]
    assert files_in(path) == small
    assert (path / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert origin_of(path / "config.json") == (NAME, COMMIT)
    assert str(origin_of(path)) == f"{NAME}@{COMMIT[:12]}"
    hub.asked.clear()
    assert located(NAME) == located(f"{NAME}@main") == located(NAME, COMMIT) == path
    assert not [asked for asked in hub.asked if asked[0] == "GET" and "/resolve/" in asked[1]]


def test_a_tokenizer_needs_no_weights(hub):
    names = ["1_Pooling/config.json", "README.md", "config.json", "tokenizer.json", "vocab.txt"]
    assert files_in(located(NAME, weights=False)) == names


def test_a_config_is_checked_before_weights_are_downloaded(hub):
    def refuse(path):
        raise ValueError(f"expected an encoder; {path.name} is of a decoder.")

    with pytest.raises(ValueError, match=r"config\.json is of a decoder"):
        located(NAME, check_config=refuse)
    assert not [path for _, path in hub.asked if path.endswith(".safetensors")]


def test_a_download_that_broke_off_goes_on(hub, folder):
    hub.broken_off["model.safetensors"] = 30000
    path = located(NAME)
    assert (path / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert hub.offsets == [30000]


def test_a_hub_that_renamed_the_model_and_has_large_files_elsewhere_is_followed(hub, folder):
    hub.renamed, hub.large_elsewhere = {"someone/old-name": NAME}, True
    path = located("someone/old-name")
    assert (path / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert any(asked.startswith("/api/models/someone/old-name") for _, asked in hub.asked)
    assert any(asked.startswith("/elsewhere/") for _, asked in hub.asked)


def test_a_slow_hub_is_waited_for_as_long_as_something_comes(hub, folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    hub.seconds_per_chunk = 0.15  # the weights take 1.2 seconds
    assert (located(NAME) / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_full_disk_is_one_sentence_and_the_next_call_goes_on(hub, folder):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        with pytest.raises(ValueError, match=rf"{NAME} must have room in .*cache \(File too large\): make room, or set HF_HOME"):
            located(NAME)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (located(NAME) / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_a_file_with_another_checksum_is_refused_and_removed(hub):
    hub.wrong.add("model.safetensors")
    with pytest.raises(ValueError, match=r"model.safetensors of .* must have the SHA-256 .* try again"):
        located(NAME)
    hub.wrong.clear()
    assert (located(NAME) / "model.safetensors").read_bytes().startswith(b"model.safetensors")


def test_without_a_connection_the_cache_answers(hub, monkeypatch):
    path = located(NAME)
    hub.down = True
    assert located(NAME) == path
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert located(NAME) == path


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("google-bert/bert-base-uncase", None, "has no model of this name: did you mean google-bert/bert-base-uncased?"),
        ("someone/no-such-model", None, "has no model of this name, or it is private and needs a token"),
        (
            "bert-base-uncasd",
            None,
            "no short name of a model: did you mean bert-base-uncased, or user/bert-base-uncasd of the hub?",
        ),
        (NAME, "v9", "must have the revision v9"),
        (f"{NAME}@v9", None, "must have the revision v9"),
        (f"{NAME}@main", "main", "revision must be None"),
    ],
)
def test_a_name_that_does_not_exist_is_one_sentence_with_what_was_meant(hub, name, revision, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        located(name, revision)


@pytest.mark.parametrize("name", ["someone/two..dots", f"someone/{'long' * 40}"])
def test_a_name_that_no_hub_allows_is_one_sentence(hub, name):
    with pytest.raises(ValueError, match=r"there is no file or folder someone/.*, and the hub has no model of this name"):
        located(name)


def test_a_hub_that_does_not_answer_is_one_sentence_or_the_cache(hub, monkeypatch):
    path = located(NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert located(NAME) == path
    with pytest.raises(ValueError, match=r"someone/other could not be downloaded from http://127.0.0.1:9 \(.*\): connect"):
        located("someone/other")


def test_other_failures_are_one_sentence(hub, folder, monkeypatch):
    hub.gated.add(NAME)
    with pytest.raises(ValueError, match=f"{NAME} is gated: accept its conditions at http"):
        located(NAME)
    hub.gated.clear()
    hub.down = True
    with pytest.raises(ValueError, match=r"could not be downloaded from http.* connect, or give the path of a folder"):
        located(NAME)
    hub.down = False
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"is not in the cache .* and HF_HUB_OFFLINE forbids to download it"):
        located(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("model.safetensors", "pytorch_model.bin", "tf_model.h5"):
        (folder / name).unlink()
    with pytest.raises(ValueError, match=r"must have weights as .safetensors, .*; it has .*\.msgpack"):
        located(NAME)


def test_a_path_is_a_path_and_asks_nobody(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "runs/best", "model.keras"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.mkdir()
        assert located(name).resolve() == path
    assert located("no-such-folder").name == "no-such-folder"
    assert located("runs/no-such-run").name == "no-such-run"
    (tmp_path / "bert-base-uncased").mkdir()
    with pytest.warns(UserWarning, match="is the file or folder of this name here, not that of the hub"):
        assert located("bert-base-uncased").resolve() == tmp_path / "bert-base-uncased"
    assert not hub.asked


def test_weights_are_chosen_by_preference_in_every_folder_that_is_read():
    sharded = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    dense = ["model.safetensors", "2_Dense/model.safetensors"]
    checkpoint = ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]
    for names, expected in (
        (["pytorch_model.bin", *sharded], sharded),
        (["pytorch_model.bin", "tf_model.h5"], ["pytorch_model.bin"]),
        (checkpoint, checkpoint),
        ([*dense, "2_Dense/pytorch_model.bin"], dense),
        (["onnx/model.onnx", "openvino/model.bin", "model.gguf"], []),
    ):
        assert sorted(chosen_files(names)[1]) == sorted(expected)


def test_every_model_of_the_table_has_a_short_name_of_its_own_and_a_family_that_is_read():
    assert len(SHORT_NAMES) == len(MODELS)
    facts = {"family", "parameters", "megabytes", "languages", "licence", "use", "called"}
    for model in MODELS.values():
        assert model.keys() == facts
        assert model["family"] in FAMILIES
        assert 0.4 < model["megabytes"] / model["parameters"] / 4 < 1.1
