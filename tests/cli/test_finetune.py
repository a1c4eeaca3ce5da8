"""`keras-bert finetune`: options, files, exit codes."""

import dataclasses
import functools
import re

import pytest
from helpers.command_line import said_by_verb

from keras_bert_rebuild.cli.options import VERBS, option_of, settings_fields
from keras_bert_rebuild.recipes.finetuning import finetune as recipe
from keras_bert_rebuild.recipes.finetuning.finetune_settings import FinetuneSettings

said_by = functools.partial(said_by_verb, "finetune")

NEEDED = ["--model", "m", "--train", "t.tsv", "--dev", "d.tsv", "--output", "run"]


@pytest.fixture
def called(monkeypatch, tmp_path):
    """The arguments that `finetune` was called with, in a separate folder, without a training."""
    monkeypatch.chdir(tmp_path)
    calls = []

    def instead(task, model, train, dev, output, settings, test, report):
        report({"step": 0, "steps": 7})
        report({"step": 7, "loss": 0.5, "dev_accuracy": 0.75})
        calls.append((task, model, str(train), str(dev), str(output), settings, test))
        return recipe.Finetuned(None, {"accuracy": 0.75}, None, {"dev": {"accuracy": 0.75}})

    monkeypatch.setattr(recipe, "finetune", instead)
    return calls


def test_every_setting_has_an_option_with_its_help(capsys):
    said = " ".join(said_by(capsys, "--help").out.split())
    assert settings_fields(VERBS["finetune"]["settings"]).keys() == {field.name for field in dataclasses.fields(FinetuneSettings)}
    for field in dataclasses.fields(FinetuneSettings):
        assert re.search(f"{option_of(field.name)}[ ,]", said)
    assert "passes over the training examples (default: 3)" in said


def test_options_and_a_file_give_the_same_settings_and_options_win(called, capsys, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "epochs: 9\nlearning_rate: 5e-5\nfreeze: [^Embedding-]\nclass_weights: {'a=b': 2}\ncolumns: {text: x, choices: [u, v]}\n"
        "header: false\njit_compile: false\nlora_rank: 8\n"
    )
    said = said_by(capsys, "classification", *NEEDED, "--settings", "s.yaml", "--epochs", 2)
    options = "--epochs 2 --learning-rate 5e-5 --freeze ^Embedding- --class-weights a=b=2 --columns text=x choices=u,v --no-header"
    said_by(capsys, "classification", *NEEDED, *options.split(), "--jit-compile", "no", "--lora-rank", 8)
    assert called[0] == called[1]
    assert called[0][-2] == FinetuneSettings(
        epochs=2,
        learning_rate=5e-5,
        freeze=("^Embedding-",),
        class_weights={"a=b": 2.0},
        columns={"text": "x", "choices": ["u", "v"]},
        header=False,
        jit_compile=False,
        lora_rank=8,
    )
    assert "dev      accuracy 0.7500" in said.out
    assert "run/model" in said.out


def test_balanced_weights_are_a_keyword(called, capsys):
    said_by(capsys, "classification", *NEEDED, "--class-weights", "balanced")
    assert called[0][-2].class_weights == "balanced"


def test_a_random_field_is_a_flag(called, capsys):
    said_by(capsys, "token-classification", *NEEDED, "--crf")
    said_by(capsys, "token-classification", *NEEDED, "--no-crf")
    assert [call[-2].crf for call in called] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["classification", "--crf"],
            "crf must be for token_classification, whose tags follow each other; the task is",
        ),
        (["classification"], "expected a file of examples; t.tsv does not exist."),
        (["clasification"], "did you mean classification"),
        (["classification", "--epochs", "0"], "epochs must be a whole number of at least 1; got 0."),
        (["classification", "--columns", "text"], "--columns: expected NAME=VALUE; got 'text'"),
        (["classification", "--class-weights", "a=much"], "expected balanced, or numbers by label; got 'a=much'"),
        (["classification", "--header=maybe"], "--header: takes no value; got 'maybe'"),
        (["classification", "--train", "latin.tsv"], "expected text in UTF-8; latin.tsv, line 2 is not, at byte 9 of the file."),
        (["classification", "--train", "one.tsv", "--dev", "one.tsv"], "all 2 of one.tsv have 'x'"),
        (["classification", "--train", "two.tsv", "--dev", "two.tsv"], "there is no file or folder m"),
    ],
)
def test_wrong_input_exits_with_2_and_one_sentence_and_writes_nothing(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.tsv").write_bytes("a\tx\nb\tcaf\xe9\n".encode("latin-1"))
    (tmp_path / "one.tsv").write_text("a\tx\nb\tx\n")
    (tmp_path / "two.tsv").write_text("a\tx\nb\ty\n")
    said = said_by(capsys, *arguments[:1], *NEEDED, *arguments[1:], code=2)
    assert message in said.err
    assert "0/? steps" not in said.err
    assert not (tmp_path / "run").exists()
