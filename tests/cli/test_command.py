"""The command in a separate process: what happens before Keras is imported, and how the process ends."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import keras_bert_command
from keras_bert_rebuild.cli.options import VERBS

ROOT = Path(__file__).parents[2]

# What TensorFlow's library prints when it is loaded, before a log level can be set.
OF_TENSORFLOW = re.compile(rb"(WARNING: All log messages before absl|[IWE]\d{4} [\d:.]+ +\d+ \S+\.cc:\d+\]).*\n")


def command(*arguments, **environment):
    """`keras-bert` with these arguments, started."""
    return subprocess.Popen(
        [sys.executable, "-c", "import sys, keras_bert_command; sys.exit(keras_bert_command.main())", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def said(process):
    """The exit code, and the text on both outputs."""
    out, err = process.communicate(timeout=120)
    err = OF_TENSORFLOW.sub(b"", err)
    assert b"Traceback" not in err, err
    return process.returncode, out.decode(), err.decode()


def test_an_unknown_backend_is_one_sentence():
    sentence = "keras-bert: KERAS_BACKEND must be tensorflow, jax or torch; got 'evil\\x1b'.\n"
    assert said(command("--version", KERAS_BACKEND="evil\x1b")) == (2, "", sentence)


@pytest.mark.parametrize("missing", ["jax", "rich"])
@pytest.mark.slow(torch=True)
def test_a_missing_package_is_one_sentence_with_a_command(tmp_path, missing):
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('no', name={missing!r})")
    backend = {"KERAS_BACKEND": missing} if missing == "jax" else {}
    code, out, err = said(command("explain", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}", **backend))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{missing} " in err
    assert f"{sys.executable} -m pip install {missing}" in err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["pretrian"], ["plan", "--dtype", "int3"], [], ["inspect", "--model", "m"]]
)
def test_what_needs_no_model_is_answered_without_keras(arguments, tmp_path):
    (tmp_path / "keras.py").write_text("raise SystemExit('Keras was imported')")
    code, out, err = said(command(*arguments, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}"))
    assert code == (0 if arguments in (["--help"], ["--version"]) else 2)
    assert "keras-bert" in (out if code == 0 else err)
    assert (err if code == 0 else out) == ""


def test_no_help_of_a_verb_imports_keras_or_numpy():
    program = """
import contextlib, io, keras_bert_command, sys
for verb in sys.argv[1:]:
    sys.argv = ["keras-bert", verb, "--help"]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as help:
        keras_bert_command.main()
    assert f"keras-bert {verb}" in help.getvalue(), verb
assert not {"keras", "numpy", "rich", "yaml"} & set(sys.modules), sys.modules
"""
    subprocess.run([sys.executable, "-c", program, *VERBS], env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, timeout=60)


def test_arguments_without_a_mistake_are_those_of_a_verb(tmp_path):
    assert keras_bert_command.answered_early(["inspect", "--model", str(tmp_path)]).verb == "inspect"


def test_what_libraries_print_when_they_are_imported_is_shown_only_if_that_fails(capfd):
    with keras_bert_command._without_notes():
        os.write(2, b"a note\n")
    assert capfd.readouterr().err == ""
    with contextlib.suppress(ImportError), keras_bert_command._without_notes():
        os.write(2, b"the reason\n")
        raise ImportError
    assert capfd.readouterr().err == "the reason\n"
    os.write(2, b"as before\n")
    assert capfd.readouterr().err == "as before\n"


def test_an_interrupt_while_packages_are_imported_is_quiet(tmp_path):
    (tmp_path / "keras.py").write_text("import time; print('importing', flush=True); time.sleep(60)")
    process = command("explain", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert process.stdout.readline() == b"importing\n"
    process.send_signal(signal.SIGINT)
    assert said(process) == (130, "", "")


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.slow(torch=True)
def test_a_closed_pipe_ends_the_command_quietly(format):
    process = command("explain", "--names", "google", "--format", format)
    process.stdout.close()
    with process.stderr:
        err = process.stderr.read()
    assert (process.wait(), OF_TENSORFLOW.sub(b"", err)) == (141, b"")


@pytest.mark.slow(torch=True)
def test_the_second_of_two_runs_names_the_first_and_the_first_succeeds(tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"a boat by the river {i} and {i * 7} boats\n" for i in range(6_000)))
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abehinortv0123456789"]))
    arguments = ("prepare", corpus, "--tokenizer", vocabulary, "--output", tmp_path / "tokens", "--processes", 1)
    first = command(*arguments)
    holder = tmp_path / "tokens" / ".prepare.json.lock.holder"
    # It takes the lock first and writes its name beside it afterwards.
    while not (holder.exists() and holder.stat().st_size):
        assert first.poll() is None
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        code, out, err = said(command(*arguments, "--cased"))
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert (code, out) == (2, "")
    assert f"tokens is being written by `keras-bert prepare`, process {first.pid}, since" in err
    assert said(first)[0] == 0
    assert not [path for path in (tmp_path / "tokens").iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in UTF-8 only")
@pytest.mark.slow(torch=True)
def test_a_path_that_is_not_utf_8_is_printed(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2.0\n2,1.0\n")
    code, out, err = said(command("curves", tmp_path, "--output", os.fsdecode(folder + b"/a.svg"), PYTHONUTF8="1"))
    assert (code, err) == (0, "")
    assert "caf\\udce9/a.svg" in out
