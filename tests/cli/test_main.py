"""The command: exit codes and error messages, also for running out of memory on any backend."""

import argparse
import errno
import re
import sys
import types

import pytest

from keras_bert_rebuild.cli import main as cli
from keras_bert_rebuild.cli.main import REMEDIES, is_of_memory, main, memory_errors, memory_sentence


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
    assert said.startswith("keras-bert")
    assert said.count("\n") == 1


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


def fake(name, path, base=Exception):
    """A fake backend module with its error class."""
    error = type(path.rpartition(".")[2], (base,), {})
    module = types.SimpleNamespace(**{path: error} if "." not in path else {"errors": types.SimpleNamespace(**{path[7:]: error})})
    return module, error


@pytest.mark.parametrize(
    ("backend", "path", "base", "words"),
    [
        ("tensorflow", "errors.ResourceExhaustedError", Exception, "OOM when allocating tensor"),
        ("torch", "OutOfMemoryError", RuntimeError, "CUDA out of memory. Tried to allocate 2 GiB\nand more\nlines"),
        ("jax", "errors.JaxRuntimeError", RuntimeError, "RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"),
    ],
)
def test_the_error_of_every_backend_is_recognised(monkeypatch, capsys, backend, path, base, words):
    module, error = fake(backend, path, base)
    monkeypatch.setitem(sys.modules, backend, module)

    def exhausted(args):
        args.used = 32, 512
        raise error(words)

    monkeypatch.setattr("keras_bert_rebuild.cli.finetune.run", exhausted)
    assert cli.main(["finetune", "classification", "--model", "m", "--train", "t", "--dev", "d", "--output", "o"]) == 2
    assert capsys.readouterr().err == (
        "keras-bert finetune: out of memory with batches of 32 rows of 512 tokens: try a smaller --batch-size, a shorter "
        "--max-seq-length, or --lora-rank 8 or --dtype mixed_bfloat16.\n"
    )


def test_other_errors_are_not_hidden(monkeypatch):
    def wrong(args):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("keras_bert_rebuild.cli.finetune.run", wrong)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        cli.main(["finetune", "classification", "--model", "m", "--train", "t", "--dev", "d", "--output", "o"])


def test_a_full_disk_that_a_backend_calls_exhausted_is_not_out_of_memory(monkeypatch, capsys):
    module, error = fake("tensorflow", "errors.ResourceExhaustedError")
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    assert error in memory_errors()
    assert not is_of_memory(error("served/1; No space left on device"))

    def full(args):
        raise error("served/1; No space left on device")

    monkeypatch.setattr("keras_bert_rebuild.cli.export.run", full)
    assert cli.main(["export", "m", "--output", "o"]) == 2
    assert capsys.readouterr().err == "keras-bert export: no space left on the disk.\n"


@pytest.mark.parametrize("verb", [verb for verb, _, _ in cli.VERBS])
def test_three_remedies_are_named_and_the_options_among_them_exist(verb, capsys):
    said = memory_sentence(MemoryError(), argparse.Namespace(verb=verb, batch_size=8, max_len=None))
    assert said.startswith("out of memory with batches of 8 rows: try ")
    assert len(REMEDIES.get(verb, (1, 2, 3))) == 3
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    options = capsys.readouterr().out
    own = " ".join(part for part in REMEDIES.get(verb, ()) if "fine-tuned" not in part)
    assert all(option in options for option in re.findall(r"--[a-z-]+", own))
