"""A model goes to a hub and comes back: the real client against a hub on the loopback interface."""

import os

import pytest
from helpers.loopback_hub import LoopbackHub, asked_by_the_client
from helpers.small_tasks import TOKENIZER, small_encoder, small_task
from huggingface_hub import constants

from keras_bert_rebuild import SentenceEmbedder, TextClassifier, from_pretrained, load_task, push_to_hub, save_pretrained
from keras_bert_rebuild.files.hub import located

NAME = "someone/pets"

# The client's own, where its store of large files is not spoken.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=")


@pytest.fixture(scope="module")
def task():
    return small_task(TextClassifier, labels=("a", "b"))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    (tmp_path / "hub" / "other").mkdir(parents=True)
    (tmp_path / "hub" / "other" / "config.json").write_text("{}")
    with asked_by_the_client(LoopbackHub({"another/one": tmp_path / "hub" / "other"}), monkeypatch, tmp_path / "cache") as hub:
        monkeypatch.setenv("HF_TOKEN", "hf_writer")
        yield hub


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_goes_up_as_it_was_saved_and_comes_back(hub, task, tmp_path):
    folder = tmp_path / "saved"
    task.save(folder)
    saved = files_in(folder)
    for name in (".env", "train.tsv", "secrets/key.txt"):  # which are no files of a model
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("secret")
    origin = push_to_hub(folder, NAME, private=True, message="Pets")
    assert files_in(hub.repositories[NAME]) == saved
    assert "README.md" in saved
    assert (hub.private, hub.messages) == ({NAME}, ["Pets"])
    assert origin == (NAME, hub.commits[NAME])
    assert load_task(NAME, revision=origin.commit).settings() == task.settings()


@pytest.mark.parametrize("kind", ["task", "embedder", "encoder"])
def test_a_model_goes_up_as_it_would_be_saved(hub, task, tmp_path, kind):
    model = {"task": lambda: task, "embedder": lambda: small_task(SentenceEmbedder), "encoder": lambda: small_encoder(("mlm",))}[
        kind
    ]()
    (save_pretrained if kind == "encoder" else type(model).save)(model, tmp_path / "saved")
    push_to_hub(model, NAME)
    assert files_in(hub.repositories[NAME]) == files_in(tmp_path / "saved")
    assert not hub.private


def test_a_branch_is_made_and_main_stays_as_it_is(hub, task, tmp_path):
    push_to_hub(task, NAME)
    before = files_in(hub.repositories[NAME])
    origin = push_to_hub(small_task(TextClassifier, labels=("c", "d")), NAME, revision="other")
    assert files_in(hub.repositories[NAME]) == before
    assert load_task(NAME, revision="other").labels == load_task(f"{NAME}@{origin.commit}").labels == ("c", "d")
    assert load_task(NAME).labels == ("a", "b")


def test_another_model_replaces_what_would_be_read_of_the_first_but_no_text_of_the_user(hub, task):
    push_to_hub(small_task(SentenceEmbedder), NAME)
    there = hub.repositories[NAME]
    assert (there / "modules.json").exists()
    (there / "README.md").write_text("My own text.\n")
    (there / "notes.txt").write_text("More of it.\n")
    push_to_hub(task, NAME)
    assert load_task(NAME).kind == "classification"
    assert not (there / "modules.json").exists()
    assert [(there / name).read_text() for name in ("README.md", "notes.txt")] == ["My own text.\n", "More of it.\n"]


def test_what_cannot_be_pushed_is_one_sentence_before_anything_is_sent(hub, task, tmp_path):
    for name in ("pets", "a/b/c", "some one/pets", "someone/pets@main", ""):
        with pytest.raises(ValueError, match="the name of a repository must be user/name"):
            push_to_hub(task, name)
    with pytest.raises(ValueError, match="there is no folder"):
        push_to_hub(tmp_path / "nothing", NAME)
    texts, run = tmp_path / "texts", tmp_path / "run"
    texts.mkdir()
    (texts / "train.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match=r"texts must hold a model; it holds none of its files\.$"):
        push_to_hub(texts, NAME)
    task.save(run / "model")
    (run / "settings.yaml").write_text("task: classification\n")
    with pytest.raises(ValueError, match=r"run must hold a model; it holds a training run: push .*model\.$"):
        push_to_hub(run, NAME)
    (tmp_path / "key.txt").write_text("secret")
    (run / "model" / "merges.txt").symlink_to(tmp_path / "key.txt")
    with pytest.raises(ValueError, match=r"merges.txt must be a file of its folder; it is a link to .*key.txt"):
        push_to_hub(run / "model", NAME)
    os.remove(run / "model" / "model.safetensors")
    with pytest.raises(ValueError, match=r"expected a folder with one of model\.safetensors"):
        push_to_hub(run / "model", NAME)
    assert not hub.asked


def test_what_the_hub_refuses_is_one_sentence(hub, task, monkeypatch):
    with pytest.raises(ValueError, match="your token must have the right to write to another/one"):
        push_to_hub(task, "another/one")
    with pytest.raises(ValueError, match="your token must have the right to write to another/new"):
        push_to_hub(task, "another/new")
    with pytest.raises(ValueError, match="the name of a repository must be one that the hub allows"):
        push_to_hub(task, "someone/two..dots")
    monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
    with pytest.raises(ValueError, match="must know the token; log in again with `hf auth login`"):
        push_to_hub(task, NAME)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match="needs a token that may write: log in with `hf auth login`, or set HF_TOKEN"):
        push_to_hub(task, NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    hub.down = True
    with pytest.raises(ValueError, match=r"someone/pets could not be uploaded to http.* \(.*503.*\): call again"):
        push_to_hub(task, NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"could not be uploaded"):
        push_to_hub(task, NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"could not be uploaded to http://127.0.0.1:9 \(.*\): call again"):
        push_to_hub(task, NAME)


def test_what_was_pushed_is_the_base_of_what_is_made_from_it(hub, tmp_path):
    encoder = small_encoder(("mlm",))
    save_pretrained(encoder, tmp_path / "encoder", vocabulary=list(TOKENIZER.vocabulary))
    origin = push_to_hub(tmp_path / "encoder", NAME)
    TextClassifier.from_encoder(NAME, labels=["x", "y"]).save(tmp_path / "task")
    card = (tmp_path / "task" / "README.md").read_text()
    assert f"base_model: {NAME}\nbase_model_revision: {origin.commit}\n" in card
    save_pretrained(from_pretrained(located(NAME)), tmp_path / "copy")
    assert f"base_model: {NAME}\n" in (tmp_path / "copy" / "README.md").read_text()
