"""Names of the hub on the command line: accepted without Keras, and replaced by the folder that is downloaded."""

import json
import shutil

import pytest
from helpers.loopback_hub import COMMIT, LoopbackHub, asked_by_the_client
from helpers.small_tasks import small_task

from keras_bert_rebuild import TextClassifier, load_task
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.option_values import described, model, tokenizer
from keras_bert_rebuild.cli.options import VERBS
from keras_bert_rebuild.cli.parsers import missing, parsed, parser_of
from keras_bert_rebuild.files.hub import MODELS

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
