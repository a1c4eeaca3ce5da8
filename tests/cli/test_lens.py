"""`keras-bert lens`."""

import functools
import json

import pytest
from helpers.command_line import run_verb, save_small_model

run = functools.partial(run_verb, "lens")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_a_text_is_shown_as_a_table_as_json_and_as_a_page(capsys, folder, tmp_path):
    code, out, _ = run(capsys, "the [MASK] sat", "--model", folder, "--truth", "the cat sat")
    assert code == 0
    assert "[MASK], token 2" in out
    assert "rank of cat" in out
    code, out, _ = run(capsys, "the [MASK] sat", "--pair", "the cat", "--model", folder, "--format", "json", "--top-k", "2")
    assert code == 0
    assert json.loads(out)["tokens"] == ["[CLS]", "the", "[MASK]", "sat", "[SEP]", "the", "cat", "[SEP]"]
    page = tmp_path / "lens.html"
    code, out, _ = run(capsys, "the [MASK] sat", "--model", folder, "--format", "html", "--output", page)
    assert code == 0
    assert out.startswith(f"Wrote {page}, ")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_mistakes_are_reported_in_a_sentence(capsys, folder, tmp_path):
    page = tmp_path / "lens.html"
    for arguments, message in (
        (
            ("the cat", "--model", folder, "--format", "json", "--output", page),
            "--output is only for --format html; the format json is printed",
        ),
        (("the cat", "--model", folder, "--format", "html"), "--format html needs a file to write: add --output FILE.html."),
        (("the [MASK]", "--model", folder, "--truth", "cat"), "truth must be the text with a token for every mask"),
        (
            ("cat", "--model", folder, "--format", "html", "--output", tmp_path / "page.pdf"),
            "a file whose name ends in .html, .htm; got",
        ),
        (("cat", "--model", tmp_path / "none"), "none; it does not exist"),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not page.exists()
