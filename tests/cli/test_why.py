"""`keras-bert why`: which words carried an answer."""

import functools
import json
import re

import pytest
from helpers.command_line import run_verb, said_by_verb, save_small_model
from helpers.small_tasks import small_task

from keras_bert_rebuild import MultipleChoice, SentenceEmbedder, TextClassifier
from keras_bert_rebuild.cli.options import TABLE
from keras_bert_rebuild.interpret import METHODS, attribute

run = functools.partial(run_verb, "why")
said = functools.partial(said_by_verb, "why")

TEXT = "The Cat sat on the mat."


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Folders of tasks, by their kinds, and the classifier."""
    folder = tmp_path_factory.mktemp("tasks")
    classifier = small_task(TextClassifier, labels=("cat", "dog"))
    classifier.save(folder / "classification")
    small_task(SentenceEmbedder).save(folder / "embedding")
    small_task(MultipleChoice).save(folder / "multiple_choice")
    return folder, classifier


def test_json_has_the_attributions_of_python(tasks, capsys):
    folder, task = tasks
    out = said(
        capsys, TEXT, "--model", folder / "classification", "--target", "dog", "--integration-steps", 5, "--format", "json"
    ).out
    (found,) = json.loads(out)
    (expected,) = attribute(task, [TEXT], target="dog", steps=5)
    assert found["name"] == "classification"
    assert found["target"] == "logit of dog"
    assert [word["word"] for word in found["words"]] == ["The", "Cat", "sat", "on", "the", "mat", "."]
    assert [word["score"] for word in found["words"]] == pytest.approx([word.score for word in expected.words], abs=1e-5)


def test_a_pipe_gets_the_words_and_a_table_without_colours(tasks, capsys):
    folder, _ = tasks
    out = said(capsys, TEXT, "--model", folder / "classification", "--method", "leave-one-out", "shapley", "--top-k", 3).out
    assert "\x1b" not in out
    assert out.count(TEXT) == 2
    assert out.count("the strongest 3 of 7 words") == 2
    assert "completeness: scores sum to" in out
    assert len(re.findall(r"^\S+ +[+−]0\.\d{4}", out, re.MULTILINE)) == 6


def test_tasks_that_read_two_texts_get_pairs(tasks, capsys):
    folder, _ = tasks
    out = said(capsys, "the cat", "--model", folder / "embedding", "--pair", "the dog", "--method", "gradient-x-input").out
    assert out.startswith("cosine of the texts: ")
    assert "text 2" in out
    choices = ("--pair", "the cat", "--pair", "a dog", "--target", 1, "--method", "rollout")
    assert "logit of choice 1: a dog" in said(capsys, "anna likes", "--model", folder / "multiple_choice", *choices).out


def test_a_model_of_pretraining_fills_a_mask(capsys, tmp_path):
    folder = save_small_model(tmp_path / "model")
    out = said(
        capsys, "the [MASK] sat.", "--model", folder, "--target", "cat", "--quantity", "probability", "--method", "leave-one-out"
    ).out
    assert out.startswith("probability of cat for the mask: 0.")
    out = said(
        capsys, "the cat", "--model", folder, "--pair", "sat.", "--task", "next-sentence", "--method", "gradient-x-input"
    ).out
    assert out.startswith("logit that the second text follows")


def test_a_page_is_one_file_without_script_in_which_hostile_text_is_text(tasks, capsys, tmp_path):
    folder, _ = tasks
    hostile = "the <script>alert(1)</script> & \"quotes\" \u202e \x00 {style} cat </style> <img src=x onerror='alert(2)'>"
    output = tmp_path / "why.html"
    assert (
        said(capsys, hostile, "--model", folder / "classification", "--output", output, "--integration-steps", 3).out
        == f"Wrote {output}.\n"
    )
    page = output.read_text(encoding="utf-8")
    assert page.count("<style>") == 1
    assert not re.search(r"<script|<img|src=x onerror='|\x00|\u202e", page)
    assert not re.search(r"https?://|@import|url\(", page)
    body = page[page.index("<body>") :]
    shown = re.sub(r"<[^>]*>", "", body[body.index('class="text"') : body.index('<ul class="legend">')])
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown.replace("\n", "")
    code, _, err = run(capsys, "cat", "--model", folder / "classification", "--output", output)
    assert code == 2
    assert "--overwrite" in err
    said(capsys, "cat", "--model", folder / "classification", "--output", tmp_path / "why.json", "--integration-steps", 3)
    said(
        capsys,
        "dog",
        "--model",
        folder / "classification",
        "--output",
        tmp_path / "why.json",
        "--integration-steps",
        3,
        "--overwrite",
    )
    assert json.loads((tmp_path / "why.json").read_text(encoding="utf-8"))[0]["texts"] == ["dog"]


def test_mistakes_are_reported_in_a_sentence(tasks, capsys, tmp_path):
    folder, _ = tasks
    (tmp_path / "mine.json").write_text('{"precious": 1}')
    classifier = folder / "classification"
    for arguments, message in (
        (("cat", "--model", classifier, "--target", "bird"), "target must be one of cat, dog"),
        (("cat", "--model", classifier, "--samples", 8), "--samples must be left out for integrated-gradients"),
        (("cat", "--model", classifier, "--pair", "a", "--pair", "b"), "--pair may be given several times for multiple choice"),
        (("cat", "--model", classifier, "--output", tmp_path / "why.pdf"), "a file whose name ends in .html, .htm, .json"),
        (("cat", "--model", classifier, "--output", tmp_path / "why.json", "--format", "html"), "--format must be json"),
        (("cat", "--model", classifier, "--output", tmp_path / "mine.json", "--overwrite"), "mine.json"),
        (("cat", "--model", folder / "embedding"), "give the second as a pair"),
        (("cat", "--model", tmp_path / "none"), "none"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err
    assert (tmp_path / "mine.json").read_text() == '{"precious": 1}'


def test_the_methods_of_the_parser_are_those_of_python():
    assert tuple(name.replace("-", "_") for name in TABLE["words"]["methods"]) == tuple(METHODS)
