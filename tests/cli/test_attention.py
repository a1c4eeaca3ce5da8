"""`keras-bert attention`."""

import pytest
from small import small_model

from keras_bert_rebuild import save_pretrained
from keras_bert_rebuild.cli.main import main

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "."]


def run(capsys, *arguments):
    code = main(["attention", *map(str, arguments)])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_pretrained(small_model(token_num=len(WORDS)), path, vocabulary={word: i for i, word in enumerate(WORDS)})
    return path


def test_two_texts_become_one_page(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    code, out, _ = run(capsys, "the cat", "sat.", "--model", folder, "--output", output)
    assert code == 0
    assert out.startswith(f"Wrote {output}, 0.")
    assert '"tokens":["[CLS]","the","cat","[SEP]","sat",".","[SEP]"]' in output.read_text(encoding="utf-8")
    code, _, _ = run(capsys, "the cat", "--model", folder, "--output", output, "--layers", "1", "--heads", "0,1")
    assert code == 0
    assert '"layers":[1],"heads":[0,1]' in output.read_text(encoding="utf-8")


def test_mistakes_are_told_in_a_sentence(capsys, folder, tmp_path):
    output = tmp_path / "page.html"
    for arguments, message in (
        (
            ("cat", "--model", folder, "--output", tmp_path / "no" / "page.html"),
            "--output must be a file in a folder that is there",
        ),
        (("cat", "--model", folder, "--output", tmp_path), "--output must be a file in a folder that is there"),
        (("cat", "--model", folder, "--output", output, "--layers", "one"), "--layers must be numbers with commas between"),
        (("cat", "--model", folder, "--output", output, "--layers", "7"), "layers must be numbers from 0 to 1"),
        (("cat", "--model", tmp_path / "none", "--output", output), "there is none"),
    ):
        code, _, err = run(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1), err
        assert message in err
        assert not output.exists()
