"""Predictions become a table that reads back equal."""

import csv
import json

import pytest
from helpers.small_tasks import small_task

from keras_bert_rebuild import QuestionAnswerer, TextClassifier
from keras_bert_rebuild.data.labelled.read_labelled import read_examples, read_labelled
from keras_bert_rebuild.recipes.finetuning.predict import predict, write_rows

TEXTS = ('He said "no" twice', '"all quoted"', "a, b", "tab\there", "two\nlines\r\n", "=1+1", "-5 points", "@home", "'x", " a ", "")
QUESTION = {"question": "who sat", "context": "anna sat on the mat"}


@pytest.fixture(scope="module")
def classifier():
    return small_task(TextClassifier, labels=("=x", "-1"))


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_texts_labels_ids_and_other_columns_read_back_as_they_were(classifier, tmp_path, suffix):
    note = [None, "", "n", ["a b", "c"]]
    rows = [{"id": f"q{i}", "text": text, "note": note[i % 4], "count": i} for i, text in enumerate(TEXTS)]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    output = tmp_path / f"out{suffix}"
    predict(classifier, tmp_path / "in.jsonl", output)
    examples, others, _ = read_labelled(output, "classification")
    assert [example.text for example in examples] == [*TEXTS]
    assert [example.label for example in examples] == [answer.label for answer in classifier([*TEXTS])]
    for name in ("id", "note"):
        assert [other[name] for other in others] == [row[name] for row in rows]
    assert [int(other["count"]) for other in others] == [row["count"] for row in rows]
    predict(classifier, output, output.with_name(f"again{suffix}"))
    assert output.with_name(f"again{suffix}").read_bytes() == output.read_bytes()
    predict(classifier, tmp_path / "in.jsonl", output, overwrite=True)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_lists_of_labels_come_back_as_lists(tmp_path, suffix):
    task = small_task(TextClassifier, labels=("a, b", "c d"), problem="multi_label", threshold=1e-9)
    (tmp_path / "in.txt").write_text("cat\n\ndog\n")
    output = tmp_path / f"out{suffix}"
    for overwrite in (False, True):
        predict(task, tmp_path / "in.txt", output, overwrite=overwrite)
    assert [example.label for example in read_examples(output, "multi_label")] == [("a, b", "c d")] * 3


def test_every_line_of_a_text_file_has_an_answer(classifier, tmp_path):
    (tmp_path / "in.txt").write_text("one\n\ntwo\n\n\nthree\n")
    predict(classifier, tmp_path / "in.txt", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == ["one", "", "two", "", "", "three"]


def test_questions_with_equal_ids_keep_their_answers(tmp_path):
    task = small_task(QuestionAnswerer)
    rows = [{"id": 7, **QUESTION}, {"id": 7, **QUESTION, "question": "the mat"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    predict(task, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["question"]) for row in found] == [(7, "who sat"), (7, "the mat")]
    with pytest.raises(ValueError, match=r"a unique id for every question; 7 occurs in .*line 1 and in .*line 2"):
        predict(task, tmp_path / "in.jsonl", tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_spans_and_entities_in_a_table_are_the_values_of_the_other_formats(tmp_path):
    rows = [{"id": "1", "start": None, "best": [{"text": "a b", "start": 0}]}, {"id": "2", "start": 4, "best": []}]
    write_rows(tmp_path / "questions.tsv", rows)
    assert (tmp_path / "questions.tsv").read_text() == 'id\tstart\tbest:json\n1\t\t[{"text": "a b", "start": 0}]\n2\t4\t[]\n'
