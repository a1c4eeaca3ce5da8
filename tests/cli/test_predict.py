"""`keras-bert predict`: answers in the user's terms, whole or not at all."""

import csv
import json
import os

import pytest
from helpers.small_tasks import TOKENIZER, small_encoder

from keras_bert_rebuild import QuestionAnswerer, TextClassifier, TokenClassifier
from keras_bert_rebuild.cli.main import main

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
            "a file whose name ends in .jsonl, .tsv, .csv, .json; got a.doc",
        ),
        ("classifier", ["--input", "in.txt", "--output", "a.json"], "ends in .jsonl, .tsv, .csv for classification; got a.json"),
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
