"""`keras-bert attention`."""

import functools

import pytest
from helpers.command_line import run_verb, save_small_model

run = functools.partial(run_verb, "attention")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("model"))


def test_two_texts_give_one_page(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    code, out, _ = run(capsys, "the cat", "sat.", "--model", folder, "--output", output)
    assert code == 0
    assert out.startswith(f"Wrote {output}, 0.")
    assert '"tokens":["[CLS]","the","cat","[SEP]","sat",".","[SEP]"]' in output.read_text(encoding="utf-8")
    code, _, _ = run(capsys, "the cat", "--model", folder, "--output", output, "--layers", "1", "--heads", "0,1", "--overwrite")
    assert code == 0
    assert '"layers":[1],"heads":[0,1]' in output.read_text(encoding="utf-8")


def test_mistakes_are_reported_in_a_sentence(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    for arguments, message in (
        (("cat", "--model", folder, "--output", tmp_path / "no" / "page.html"), "No such folder to write to"),
        (("cat", "--model", folder, "--output", tmp_path / "page.pdf"), "a file whose name ends in .html, .htm; got"),
        (("cat", "--model", folder, "--output", output, "--layers", "one"), "--layers must be numbers separated by commas"),
        (("cat", "--model", folder, "--output", output, "--layers", "7"), "layers must be numbers from 0 to 1"),
        (("cat", "--model", tmp_path / "none", "--output", output), "none; it does not exist"),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not output.exists()
