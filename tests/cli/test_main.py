"""The command: exit codes and error messages, also for running out of memory on any backend."""

import argparse
import errno
import re
import sys
import types

import pytest
from helpers.command_line import run_verb, save_small_model

from keras_bert_rebuild.cli import main as cli
from keras_bert_rebuild.cli.main import apply_device_options, is_of_memory, main, memory_errors, memory_sentence
from keras_bert_rebuild.cli.options import VERBS
from keras_bert_rebuild.cli.parsers import parsed


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

    monkeypatch.setattr("keras_bert_rebuild.cli.corpora.vocab", full)
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

    monkeypatch.setattr("keras_bert_rebuild.cli.corpora.vocab", exhausted)
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

    monkeypatch.setattr("keras_bert_rebuild.cli.checkpoints.export", full)
    assert cli.main(["export", "--model", "m", "--output", "o"]) == 2
    assert capsys.readouterr().err == "keras-bert export: no space left on the disk.\n"


@pytest.mark.parametrize("verb", VERBS)
def test_three_remedies_are_named_and_the_options_among_them_exist(verb, capsys):
    said = memory_sentence(MemoryError(), argparse.Namespace(verb=verb, batch_size=8, max_len=None))
    assert said.startswith("out of memory with batches of 8 rows: try ")
    remedies = VERBS[verb].get("out_of_memory", (" ",) * 3)
    assert len(remedies) == 3
    with pytest.raises(SystemExit):
        cli.main([verb, "--help-all"])
    options = capsys.readouterr().out
    own = " ".join(part for part in remedies if "fine-tuned" not in part)
    assert all(option in options for option in re.findall(r"--[a-z-]+", own))


@pytest.fixture
def calls(monkeypatch):
    """What was set."""
    made = []
    monkeypatch.setattr(cli, "set_matmul_precision", lambda precision: made.append(precision))
    monkeypatch.setattr(cli, "keep_compiled_programs", lambda folder: made.append(folder))
    monkeypatch.setattr(cli, "keep_no_programs", lambda: made.append("no programs"))
    return made


def applied(*arguments, verb="embed --model m --output o text"):
    apply_device_options(parsed([*verb.split(), *arguments]))


def test_programs_are_kept_unless_the_option_says_none(calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    applied()
    applied("--compilation-cache", "none", "--matmul-precision", "highest")
    applied("--compilation-cache", "programs")
    assert calls == ["default", None, "highest", "no programs", "default", tmp_path / "programs"]


def test_a_fine_tuning_spends_less_time_compiling(calls, monkeypatch):
    monkeypatch.setattr(cli, "compile_quickly", lambda: calls.append("quickly"))
    applied(verb="finetune similarity --model m --train t --dev d --output o")
    assert calls == ["default", "quickly", None]


def test_a_verb_without_the_options_sets_nothing(calls, capsys):
    assert run_verb("vocab", capsys, "nowhere.txt", "--output", "vocab.txt", "--vocab-size", 100).code == 2
    assert calls == []


def test_programs_that_cannot_be_kept_are_a_note(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "keep_compiled_programs", lambda folder: f"{folder} is not writable")
    (tmp_path / "texts.txt").write_text("the cat\n")
    folder = save_small_model(tmp_path / "model")
    arguments = (tmp_path / "texts.txt", "--model", folder, "--output", tmp_path / "a.npy", "--max-seq-length", 8)
    said = run_verb("embed", capsys, *arguments, "--compilation-cache", tmp_path, "--batch-tokens", 64)
    assert said.code == 0
    assert f"keras-bert embed: compiled programs are not kept: {tmp_path} is not writable\n" in said.err


def test_an_unknown_precision_is_refused(capsys, tmp_path):
    said = run_verb("embed", capsys, "a.txt", "--model", "m", "--output", tmp_path / "a.npy", "--matmul-precision", "exact")
    assert said.code == 2
    assert "unknown value 'exact'" in said.err
