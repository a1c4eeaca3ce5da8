"""`keras-bert why`, `lens` and `explain-text`: which words carried an answer, what blocks predict, and a sparse vector."""

import functools
import json
import re

import pytest
from helpers.command_line import run_verb, said_by_verb, save_small_model
from helpers.small_tasks import TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import MultipleChoice, SentenceEmbedder, SparseEmbedder, TextClassifier, save_pretrained
from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.cli.options import TABLE
from keras_bert_rebuild.interpret import METHODS, attribute

run = functools.partial(run_verb, "why")
said = functools.partial(said_by_verb, "why")
run_lens = functools.partial(run_verb, "lens")

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
    # The answer, then the words, then how they were scored.
    assert re.match(r"The answer is \w+, with a probability of 0\.\d\d\. The logit of \w+ is −?\d", out)
    assert out.index(TEXT) < out.index("word ") < out.index("completeness")
    assert not re.search(r"-\d", out)
    assert len(re.findall(r"^\S+ +[+−]0\.\d{4}", out, re.MULTILINE)) == 6


def test_tasks_that_read_two_texts_get_pairs(tasks, capsys):
    folder, _ = tasks
    out = said(capsys, "the cat", "--model", folder / "embedding", "--pair", "the dog", "--method", "gradient-x-input").out
    assert out.startswith("The cosine of the texts is 0.")
    assert "text 2" in out
    choices = ("--pair", "the cat", "--pair", "a dog", "--target", 1, "--method", "rollout")
    assert "logit of choice 1: a dog" in said(capsys, "anna likes", "--model", folder / "multiple_choice", *choices).out


def test_a_model_of_pretraining_fills_a_mask(capsys, tmp_path):
    folder = save_small_model(tmp_path / "model")
    out = said(
        capsys, "the [MASK] sat.", "--model", folder, "--target", "cat", "--quantity", "probability", "--method", "leave-one-out"
    ).out
    assert out.startswith("The probability of cat for the mask is 0.")
    out = said(
        capsys, "the cat", "--model", folder, "--pair", "sat.", "--task", "next-sentence", "--method", "gradient-x-input"
    ).out
    assert out.startswith("The logit that the second text follows is ")


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


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_the_lens_of_a_text_is_shown_as_a_table_as_json_and_as_a_page(capsys, masked, tmp_path):
    code, out, _ = run_lens(capsys, "the [MASK] sat", "--model", masked, "--truth", "the cat sat")
    assert code == 0
    assert "[MASK], token 2" in out
    assert "rank of cat" in out
    code, out, _ = run_lens(capsys, "the [MASK] sat", "--pair", "the cat", "--model", masked, "--format", "json", "--top-k", "2")
    assert code == 0
    assert json.loads(out)["tokens"] == ["[CLS]", "the", "[MASK]", "sat", "[SEP]", "the", "cat", "[SEP]"]
    page = tmp_path / "lens.html"
    code, out, _ = run_lens(capsys, "the [MASK] sat", "--model", masked, "--format", "html", "--output", page)
    assert code == 0
    assert out.startswith(f"Wrote {page}, ")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_mistakes_in_a_line_of_lens_are_reported_in_a_sentence(capsys, masked, tmp_path):
    page = tmp_path / "lens.html"
    for arguments, message in (
        (
            ("the cat", "--model", masked, "--format", "json", "--output", page),
            "--output is only for --format html; the format json is printed",
        ),
        (("the cat", "--model", masked, "--format", "html"), "--format html needs a file to write: add --output FILE.html."),
        (("the [MASK]", "--model", masked, "--truth", "cat"), "truth must be the text with a token for every mask"),
        (
            ("cat", "--model", masked, "--format", "html", "--output", tmp_path / "page.pdf"),
            "a file whose name ends in .html, .htm; got",
        ),
        (("cat", "--model", tmp_path / "none"), "none; it does not exist"),
    ):
        code, _, err = run_lens(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not page.exists()


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """A saved sparse embedder, and its weights of a text."""
    task = small_task(SparseEmbedder, prompts={"query": "who likes "})
    path = tmp_path_factory.mktemp("sparse") / "task"
    task.save(path)
    return path, task


def test_the_words_are_those_of_the_vector_and_marked_if_the_text_has_them(sparse, capsys):
    path, task = sparse
    assert main(["explain-text", "the cat sat", "--model", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = task.tokens_of(next(task.documents(["the cat sat"])))
    assert [word["word"] for word in found["words"]] == [token for token, _ in expected[:20]]
    assert found["count"] == len(expected)
    assert {word["word"] for word in found["words"] if word["in_text"]} <= {"the", "cat", "sat"}
    assert main(["explain-text", "paris", "--model", str(path), "--format", "json", "--prompt", "query", "--top-k", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [word["word"] for word in found["words"]] == [token for token, _ in task.tokens_of(next(task.queries(["paris"])), 3)]


def test_the_table_shows_bars_and_a_masked_language_model_will_do(sparse, tmp_path, capsys):
    path, _ = sparse
    assert main(["explain-text", "the cat sat", "--model", str(path), "--top-k", "4"]) == 0
    out = capsys.readouterr().out
    assert "█" * 30 in out
    assert "the strongest 4 shown" in out
    model = small_encoder(("mlm",))
    save_pretrained(model, tmp_path / "mlm")
    (tmp_path / "mlm" / "vocab.txt").write_text("".join(f"{TOKENIZER.tokens[i]}\n" for i in range(len(TOKENIZER.tokens))))
    assert main(["explain-text", "the cat sat", "--model", str(tmp_path / "mlm")]) == 0
    assert " with a weight" in capsys.readouterr().out


def test_a_model_without_the_head_is_one_sentence(tmp_path, capsys):
    save_pretrained(small_encoder(), tmp_path / "plain")
    assert main(["explain-text", "a", "--model", str(tmp_path / "plain")]) == 2
    assert "MLM-Dense/kernel" in capsys.readouterr().err
