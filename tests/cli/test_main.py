"""The command: exit codes and error messages."""

import errno

import pytest

from keras_bert_rebuild.cli.main import main


def refused(capsys, *arguments):
    """Exit code and message of a call that must fail."""
    try:
        code = main(list(arguments))
    except SystemExit as exit_:
        code = exit_.code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.err


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("keras-bert 0.")


def test_without_a_verb_the_help_is_printed(capsys):
    code, said = refused(capsys)
    assert code == 2
    assert "demo" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["fly"],
        ["demo", "--steps", "0"],
        ["demo", "--steps", "x"],
        ["demo", "--minutes", "-1"],
        ["demo", "--minutes", "inf"],
        ["demo", "--steps", "1", "--minutes", "1"],
    ],
)
def test_bad_arguments_exit_with_2(capsys, arguments):
    code, said = refused(capsys, *arguments)
    assert code == 2
    assert "error" in said


def test_a_corpus_that_is_not_there_is_one_sentence(capsys, tmp_path):
    code, said = refused(capsys, "demo", "--corpus", str(tmp_path / "nothing.txt"), "--output", str(tmp_path / "out"))
    assert code == 2
    assert said.count("\n") == 1
    assert "nothing.txt does not exist" in said
    assert not (tmp_path / "out").exists()


def test_an_empty_corpus_is_one_sentence(capsys, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    code, said = refused(capsys, "demo", "--corpus", str(tmp_path / "empty.txt"), "--output", str(tmp_path / "out"))
    assert code == 2
    assert "at least one line of text" in said
    assert not (tmp_path / "out").exists()


def test_a_corpus_in_bytes_is_one_sentence(capsys, tmp_path):
    (tmp_path / "bytes.txt").write_bytes(b"caf\xe9 \xff")
    code, said = refused(capsys, "demo", "--corpus", str(tmp_path / "bytes.txt"), "--output", str(tmp_path / "out"))
    assert code == 2
    assert "UTF-8" in said


def test_a_corpus_of_one_document_is_one_sentence(capsys, tmp_path):
    (tmp_path / "one.txt").write_text("One line of text.\n")
    code, said = refused(capsys, "demo", "--corpus", str(tmp_path / "one.txt"), "--output", str(tmp_path / "out"))
    assert code == 2
    assert "at least 4 documents" in said


def test_an_output_that_is_a_file_is_one_sentence(capsys, tmp_path):
    (tmp_path / "file").write_text("x")
    code, said = refused(capsys, "demo", "--output", str(tmp_path / "file"))
    assert code == 2
    assert "expected a folder to write to" in said
    code, said = refused(capsys, "demo", "--output", str(tmp_path / "file" / "inside"))
    assert code == 2
    assert said.count("\n") == 1


def test_an_os_error_is_reported_without_its_number(capsys, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "store")

    monkeypatch.setattr("keras_bert_rebuild.cli.vocab.run", full)
    code, said = refused(capsys, "vocab", "corpus", "--output", str(tmp_path / "out"))
    assert (code, said) == (2, "keras-bert vocab: store: No space left on device\n")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "out of memory: try a smaller corpus, fewer other programs, or a machine with more memory."),
        (MemoryError("the maps need 8 GB: choose --heads."), "the maps need 8 GB: choose --heads."),
        (RuntimeError("CUDA out of memory. Tried to"), "out of memory: try a smaller corpus, fewer other programs, or a machine"),
    ],
)
def test_running_out_of_memory_is_one_sentence(capsys, tmp_path, monkeypatch, error, sentence):
    def exhausted(*_, **__):
        raise error

    monkeypatch.setattr("keras_bert_rebuild.cli.vocab.run", exhausted)
    code, said = refused(capsys, "vocab", "corpus", "--output", str(tmp_path / "out"))
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"keras-bert vocab: {sentence}")
