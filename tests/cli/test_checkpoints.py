"""`keras-bert export`, `inspect` and `models`, and names of the hub, in whose stead a verb gets the downloaded folder."""

import functools
import json
import re
import shutil

import pytest
from helpers.command_line import run_verb, save_small_model
from helpers.loopback_hub import COMMIT, LoopbackHub, asked_by_the_client
from helpers.small_tasks import small_task

from keras_bert_rebuild import TextClassifier, from_pretrained, load_task
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.option_values import described, model, tokenizer
from keras_bert_rebuild.cli.options import VERBS
from keras_bert_rebuild.cli.parsers import missing, parsed, parser_of
from keras_bert_rebuild.files.hub import MODELS

run = functools.partial(run_verb, "export")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_the_files_are_written_and_listed(capsys, folder, tmp_path):
    code, out, _ = run(capsys, "--model", folder, "--output", tmp_path / "hf", "--format", "huggingface")
    assert code == 0
    assert f"wrote    {tmp_path / 'hf' / 'model.safetensors'}" in out
    assert from_pretrained(tmp_path / "hf").config == from_pretrained(folder).config


@pytest.mark.slow(torch=True)
@pytest.mark.backend("tensorflow")
def test_a_saved_model_is_the_default(capsys, folder, tmp_path):
    code, out, _ = run(capsys, "--model", folder, "--output", tmp_path / "served", "--heads", "nsp")
    assert code == 0
    assert "saved_model.pb" in out
    assert "export.json" in out


def test_a_vocabulary_of_more_tokens_than_the_model_has_is_not_written_with_it(capsys, folder, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(999))]))
    options = ["--model", folder, "--format", "keras", "--tokenizer", tmp_path / "vocab.txt", "--output", tmp_path / "out"]
    code, _, err = run_verb("convert", capsys, *options)
    assert code == 2
    assert re.fullmatch(r"keras-bert convert: --tokenizer must have at most the \d+ tokens of the model; .* has 1,004\.\n", err)
    assert not (tmp_path / "out").exists()


def test_an_embedding_folder_is_exported_with_the_heads_of_its_file(capsys, folder, tmp_path):
    (tmp_path / "vectors" / "1_Pooling").mkdir(parents=True)
    for file in folder.iterdir():
        (tmp_path / "vectors" / file.name).write_bytes(file.read_bytes())
    modules = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    modules += [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (tmp_path / "vectors" / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "vectors" / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    arguments = ("--output", tmp_path / "out", "--format", "onnx", "--heads", "question_answering")
    code, _, err = run(capsys, "--model", tmp_path / "vectors", *arguments)
    assert (code, "Question-Answering/kernel" in err) == (2, True)


def test_mistakes_are_reported_in_a_sentence(capsys, folder, tmp_path):
    for arguments, message in (
        (("--format", "openvino_int8"), "--format openvino_int8 needs typical texts for calibration: add --calibrate FILE."),
        (("--pooling", "median", "--format", "onnx"), "--pooling must be some of cls, max, mean"),
        (("--format", "huggingface", "--pooling", "mean"), "a Hugging Face folder holds none"),
        (("--heads", "nsp", "--pooling", "mean"), "--heads and --pooling exclude each other"),
    ):
        code, _, err = run(capsys, "--model", folder, "--output", tmp_path / "x", *arguments)
        assert code == 2
        assert message in err
        assert not (tmp_path / "x").exists()


NAME = "someone/classifier"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    small_task(TextClassifier, labels=("a", "b")).save(tmp_path / "saved")
    folder = shutil.copytree(tmp_path / "saved", tmp_path / "repository")
    monkeypatch.chdir(tmp_path)
    with asked_by_the_client(LoopbackHub({NAME: folder}), monkeypatch, tmp_path / "cache") as hub:
        yield hub


@pytest.mark.parametrize("name", [NAME, f"{NAME}@{COMMIT}"])
def test_a_verb_takes_a_name_and_a_revision(hub, name, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("the cat sat\n")
    assert main(["predict", "classification", "--input", "texts.txt", "--model", name, "--output", "answers.jsonl"]) == 0
    assert (tmp_path / "answers.jsonl").read_text().count("\n") == 1
    assert main(["inspect", "--model", name]) == 0
    assert "bert" in capsys.readouterr().out


def test_a_model_is_explained_by_its_name_without_its_weights(hub, capsys):
    assert main(["explain", "--model", NAME, "--format", "json"]) == 0
    parameters = json.loads(capsys.readouterr().out)["totals"]["params"]
    assert parameters == load_task("saved").model.count_params()
    assert not [path for _, path in hub.asked if path.endswith(".safetensors")]
    assert main(["explain", "--model", NAME, "--other", "bert-base-uncased"]) == 0
    assert main(["explain", "--model", "someone/nothing"]) == 2
    assert "the hub has no model of this name" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_what_takes_a_name_takes_one_of_the_hub(verb):
    for action in parser_of(verb)._actions:
        if "NAME" in str(action.metavar) and "PATH" in str(action.metavar):
            assert action.type in (model, tokenizer, described), action.dest


def test_a_failure_is_one_sentence_and_exit_code_2(hub, capsys):
    assert main(["inspect", "--model", "someone/nothing"]) == 2
    assert "the hub has no model of this name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (NAME, None),
        ("bert-base-uncased", None),
        (
            "bert-base-uncasd",
            "--model: there is no file or folder bert-base-uncasd, and no short name of a model: did you mean bert-base-uncased, "
            "or user/bert-base-uncasd of the hub?",
        ),
        ("runs/best", "--model must be a file, a folder or a name on the Hugging Face hub that exists; got 'runs/best'."),
        ("no_such_thing", "--model must be a file, a folder or a name on the Hugging Face hub that exists; got 'no_such_thing'."),
    ],
)
def test_what_is_no_name_is_reported_before_keras_is_imported(name, sentence, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert missing(parsed(["inspect", "--model", name])) == sentence


def test_the_known_models_are_a_table(capsys):
    assert main(["models"]) == 0
    printed = capsys.readouterr().out
    assert "google-bert/bert-base-uncased" in printed
    assert max(map(len, printed.splitlines())) <= 132
    assert main(["models", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == MODELS
