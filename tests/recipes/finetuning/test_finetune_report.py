"""A report is JSON for programs, and tables for people."""

import json
import math
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.recipes.finetuning.finetune_report import bm25_scores, confusion_svg, report_text, write_report
from keras_bert_rebuild.tasks.reranker import Reranker

FOUND = {
    "task": "similarity",
    "metric": "spearman",
    "best_step": 3,
    "steps": 4,
    "examples": {"train": 1200, "dev": 1500, "test": 70},
    "in_train": {"dev": 0, "test": 0},
    "dev": {"spearman": math.nan, "pearson": 0.5},
    "seconds": 2.4,
    "train_seconds": 1.2,
}
SETTINGS = {"model": "m", "train": "t.tsv", "dev": "d.tsv", "seed": 7, "freeze": ["a|b"], "lora_rank": None}


def refuse(name):
    raise AssertionError(name)


def test_what_is_not_a_number_is_null(tmp_path):
    write_report(tmp_path, FOUND, SETTINGS)
    report = json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert report["dev"] == {"spearman": None, "pearson": 0.5}
    assert not (tmp_path / "confusion.svg").exists()


def test_tables_have_the_scores_the_labels_and_the_given_settings():
    classes = {"x": {"precision": 1.0, "recall": 0.5, "f1": 2 / 3, "support": 1500}}
    text = report_text(
        {**FOUND, "dev": {"f1": 0.25}, "test": {"f1": 0.125, "no_answer_f1": 1.0}, "classes": classes}, SETTINGS, True
    )
    assert "trained on t.tsv (1,200 examples), seed 7. Best spearman on d.tsv at step 3 of 4; 2 seconds in all" in text
    assert "| f1 | 0.2500 | 0.1250 |\n| no_answer_f1 |  | 1.0000 |" in text
    assert "On test:" in text
    assert "| x | 1.0000 | 0.5000 | 0.6667 | 1,500 |" in text
    assert r"| freeze | \['a\|b'\] |" in text
    assert "lora_rank" not in text
    assert "![confusion matrix](confusion.svg)" in text


def test_texts_that_are_in_training_too_are_counted_in_a_sentence():
    text = report_text({**FOUND, "in_train": {"dev": 1200, "test": 3}}, SETTINGS, False)
    assert "\n\nThe texts of 1,200 of the 1,500 of dev and 3 of the 70 of test are also in training.\n\n" in text
    assert "also in training" not in report_text(FOUND, SETTINGS, False)


GROUPS = [
    TextGroup("red fox", "a red fox ran", ("a red bird",)),
    TextGroup("bird", "a fox", ("a red bird", "nothing at all")),
    TextGroup("???", "a fish"),
]
# All texts that BM25 finds, as a retrieval model ranks them; and the candidates of each query alone, as a reranker does.
RANKED = [{"a red fox ran", "a red bird", "a fox"}, {"a red bird"}, set()]
CANDIDATES = [{"a red fox ran", "a red bird"}, {"a fox", "nothing at all"}, {"a fish"}]


@pytest.mark.parametrize(("task", "texts"), [(SimpleNamespace(), RANKED), (Reranker.__new__(Reranker), CANDIDATES)])
def test_bm25_ranks_the_texts_that_the_model_ranks(task, texts, monkeypatch):
    scored = lambda examples, answers: {"answers": answers}  # noqa: E731
    monkeypatch.setattr(task, "scores", scored, raising=False)
    answers = [dict.fromkeys(of_query, 0.5) for of_query in CANDIDATES]
    by_words = bm25_scores(task, GROUPS, answers)["bm25"]["answers"]
    assert [set(answer) for answer in by_words] == texts
    assert max(by_words[0], key=by_words[0].get) == "a red fox ran"
    assert set(by_words[-1].values()) <= {0.0}


@pytest.mark.parametrize("half", ["", "\ud800"])
def test_bm25_finds_words_without_spaces_and_text_that_is_not_utf_8_ends_no_training(half, monkeypatch):
    task = SimpleNamespace(scores=lambda examples, answers: {"answers": answers})
    groups = [TextGroup(f"红狐狸{half}", f"红狐狸跑了{half}", ("蓝鱼",))]
    assert list(bm25_scores(task, groups, [{"蓝鱼": 0.5}])["bm25"]["answers"][0]) == [groups[0].positive]


def test_the_scores_of_bm25_stand_beside_those_of_the_model():
    text = report_text({**FOUND, "bm25": {"pearson": 0.25}}, SETTINGS, False)
    assert "| score | dev | bm25 |" in text
    assert "| pearson | 0.5000 | 0.2500 |" in text
    assert "BM25 ranks the texts of dev" in text
    assert bm25_scores(None, GROUPS, [0.5, 0.25, 0.0]) == {}


# The picture of a confusion matrix is well-formed for any label names, and its shades follow the counts.

NAMESPACE = "{http://www.w3.org/2000/svg}"


def cells(labels, matrix, title="a < b"):
    """The cells of the picture: `(shade from 0 to 1, title)`."""
    root = ElementTree.fromstring(confusion_svg(labels, matrix, title))
    return root, [(float(rect.get("fill-opacity")), rect[0].text) for rect in root.iter(f"{NAMESPACE}rect") if len(rect)]


def test_every_pair_of_labels_has_a_cell_shaded_by_its_share_of_the_row():
    root, found = cells(["<&>", "good"], [[3, 1], [0, 0]])
    assert [text for _, text in found] == [
        "<&> predicted as <&>: 3, 75.0%",
        "<&> predicted as good: 1, 25.0%",
        "good predicted as <&>: 0, 0.0%",
        "good predicted as good: 0, 0.0%",
    ]
    assert [shade for shade, _ in found] == [0.75, 0.25, 0, 0]
    assert "a < b" in [text.text for text in root.iter(f"{NAMESPACE}text")]


@pytest.mark.parametrize("count", [1, 41, 151])
def test_any_number_of_labels_fits(count):
    matrix = [[int(i == j) for j in range(count)] for i in range(count)]
    root, found = cells([f"a label with a long name, number {i}" for i in range(count)], matrix)
    assert len(found) == count**2
    assert int(root.get("width")) < 2500


@pytest.mark.parametrize("labels", [["a", "b"], ["no", "yes"]])
def test_the_title_fits_into_a_picture_of_two_labels(labels):
    title = "rows: true, columns: predicted (test)"
    root, _ = cells(labels, [[3, 1], [0, 2]], title)
    (text,) = (text for text in root.iter(f"{NAMESPACE}text") if text.text == title)
    # Sans-serif letters are about half as wide as they are high; 0.6 leaves room for wide ones.
    assert int(text.get("x")) + len(title) * 13 * 0.6 < int(root.get("width"))
