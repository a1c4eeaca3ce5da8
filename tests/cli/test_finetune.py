"""`keras-bert finetune`, `predict` and `prune`: options, exit codes, and outputs that are whole or not written at all."""

import csv
import dataclasses
import functools
import json
import os
import re

import numpy as np
import pytest
from helpers.command_line import said_by_verb
from helpers.small_tasks import PETS, TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import QuestionAnswerer, TextClassifier, TokenClassifier, load_task
from keras_bert_rebuild.cli.main import main
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
    said = " ".join(said_by(capsys, "--help-all").out.split())
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
        (["classification", "--epochs", "0"], "--epochs must be a whole number of at least 1; got 0."),
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


QUESTION = {"id": "q", "question": "who sat", "context": "anna sat on the mat"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of tasks by name."""
    folder = tmp_path_factory.mktemp("models")
    encoder = small_encoder()
    TextClassifier.from_encoder(encoder, TOKENIZER, labels=("x", "y")).save(folder / "classifier")
    TextClassifier.from_encoder(encoder, TOKENIZER, labels=("x", "y"), problem="multi_label").save(folder / "many")
    TokenClassifier.from_encoder(encoder, TOKENIZER, labels=("O", "B-x", "I-x")).save(folder / "tagger")
    QuestionAnswerer.from_encoder(encoder, TOKENIZER).save(folder / "answerer")
    return folder


def predicted(capsys, folder, *arguments, code=0):
    got = main(["predict", *map(str, arguments), "--model", str(folder)])
    said = capsys.readouterr()
    assert got == code, said.err
    return said


def test_texts_get_labels_with_probabilities(models, capsys, tmp_path):
    (tmp_path / "in.txt").write_text("the cat\n\nthe dog sat\n")
    (tmp_path / "out").mkdir()
    predicted(capsys, models / "classifier", "--input", tmp_path / "in.txt", "--output", tmp_path / "out" / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out" / "a.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["the cat", "", "the dog sat"]
    for row in rows:
        assert row["probability"] == max(row["probabilities"].values()) == row["probabilities"][row["label"]]
    assert os.listdir(tmp_path / "out") == ["a.jsonl"]


def test_a_table_has_a_row_for_each_example_and_scores_if_there_are_labels(models, capsys, tmp_path):
    (tmp_path / "in.csv").write_text('text,label\n"the, cat",x\nthe dog,y\n')
    said = predicted(
        capsys, models / "classifier", "classification", "--input", tmp_path / "in.csv", "--output", tmp_path / "a.csv"
    )
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == ["the, cat", "the dog"]
    assert "accuracy" in said.out


def test_words_get_tags_and_texts_get_entities(models, capsys, tmp_path):
    (tmp_path / "in.conll").write_text("the\ncat\n\nanna\n")
    predicted(capsys, models / "tagger", "token-classification", "--input", tmp_path / "in.conll", "--output", tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(row["words"], len(row["tags"])) for row in rows] == [(["the", "cat"], 2), (["anna"], 1)]
    (tmp_path / "in.txt").write_text("the cat likes anna\n")
    predicted(capsys, models / "tagger", "--input", tmp_path / "in.txt", "--output", tmp_path / "b.tsv")
    predicted(capsys, models / "tagger", "--input", tmp_path / "in.txt", "--output", tmp_path / "b.jsonl")
    (row,) = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    for entity in row["entities"]:
        assert entity["text"] == row["text"][entity["start"] : entity["end"]]


def test_questions_get_answers_with_their_offsets(models, capsys, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps(QUESTION))
    predicted(capsys, models / "answerer", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "a.jsonl")
    row = json.loads((tmp_path / "a.jsonl").read_text())
    assert row["id"] == "q"
    assert row["answer"] == QUESTION["context"][row["start"] : row["end"]]
    assert row["best"][0]["text"] == row["answer"]
    predicted(capsys, models / "answerer", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == {"q": row["answer"]}


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (
            "classifier",
            ["--input", "in.txt", "--output", "a.doc"],
            "a file whose name ends in .jsonl, .tsv, .csv, .parquet, .json; got a.doc",
        ),
        (
            "classifier",
            ["--input", "in.txt", "--output", "a.json"],
            "ends in .jsonl, .tsv, .csv, .parquet for classification; got a.json",
        ),
        ("classifier", ["--input", "none.txt", "--output", "a.tsv"], "none.txt does not exist"),
        (
            "classifier",
            ["regression", "--input", "in.txt", "--output", "a.tsv"],
            "a model for regression; got one for classification",
        ),
        ("many", ["--input", "empty.txt", "--output", "a.tsv"], "empty.txt is empty"),
        ("tagger", ["--input", "in.csv", "--output", "a.tsv"], "expected a text, or words with tags"),
        ("nothing", ["--input", "in.txt", "--output", "a.tsv"], "nothing"),
    ],
)
def test_wrong_input_exits_with_2_and_writes_nothing(models, monkeypatch, capsys, tmp_path, model, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("the cat\n")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "in.csv").write_text("tags\na\n")
    before = sorted(os.listdir(tmp_path))
    said = predicted(capsys, models / model, *arguments, code=2)
    assert message in said.err
    assert "Traceback" not in said.err
    assert sorted(os.listdir(tmp_path)) == before


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A saved classifier, and its examples as a table."""
    folder = tmp_path_factory.mktemp("prune")
    small_task(TextClassifier, labels=["cat", "dog"]).save(folder / "model")
    (folder / "pets.tsv").write_text("text\tlabel\n" + "".join(f"{pet.text}\t{pet.label}\n" for pet in PETS))
    return folder


def test_the_model_is_smaller_and_the_cost_is_shown(files, tmp_path, capsys):
    output = tmp_path / "smaller"
    asked = ["prune", "--model", str(files / "model"), "--amount", "0.5", "--dev", str(files / "pets.tsv"), "--output", str(output)]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("heads    2 of 4 removed, ranked on 6 examples in ")
    assert lines[1:3] == ["         block 0: 0", "         block 1: 0"]
    pruned = load_task(output)
    before, after = (task.model.count_params() for task in (load_task(files / "model"), pruned))
    assert before - after == 2 * (4 * 16 * 8 + 3 * 8)
    assert lines[3] == f"weights  {before:,} → {after:,} parameters, {1 - after / before:.1%} less"
    scores = pruned.scores(PETS, pruned([pet.text for pet in PETS]))
    assert f"→ {scores['accuracy']:.4f}" in next(line for line in lines if line.startswith("accuracy"))
    assert json.loads((output / "config.json").read_text())["pruned_heads"] == {"0": [0], "1": [0]}
    assert np.prod(pruned.model.get_layer("Encoder-1-MultiHeadSelfAttention").query_dense.kernel.shape) == 16 * 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--amount": "0"}, "--amount must be above 0 and at most 1; got 0.0"),
        ({"--dev": "missing.tsv"}, "missing.tsv"),
    ],
)
def test_what_a_user_gets_wrong_is_a_sentence_and_nothing_is_written(files, tmp_path, capsys, changes, words):
    options = {"--amount": "0.5", "--dev": str(files / "pets.tsv"), "--output": str(tmp_path / "smaller"), **changes}
    assert main(["prune", "--model", str(files / "model"), *(word for pair in options.items() for word in pair)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not (tmp_path / "smaller").exists()


def test_a_model_that_is_there_is_replaced_only_if_that_is_said(files, tmp_path, capsys):
    output = tmp_path / "smaller"
    asked = ["prune", "--model", str(files / "model"), "--amount", "0.5", "--dev", str(files / "pets.tsv"), "--output", str(output)]
    assert main(asked) == 0
    before = (output / "model.safetensors").read_bytes()
    capsys.readouterr()
    assert main(asked) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*asked[:4], "0.1", *asked[5:], "--overwrite"]) == 0
    assert (output / "model.safetensors").read_bytes() != before
    assert main(["prune", "--model", str(files / "model"), *asked[3:-1], str(files / "model"), "--overwrite"]) == 2
