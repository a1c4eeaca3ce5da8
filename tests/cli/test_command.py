"""The command in a separate process: before Keras is imported, how it ends, and that no verb opens a connection."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.other_process import connections_of
from helpers.small_tasks import PETS, TOKENIZER, VOCABULARY, small_encoder, small_task

import keras_bert_command
from keras_bert_rebuild import save_pretrained
from keras_bert_rebuild.cli.options import VERBS
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder
from keras_bert_rebuild.tasks.text_classifier import TextClassifier

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
    holder = tmp_path / "tokens" / ".lock.holder"
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


@pytest.mark.slow(torch=True)
def test_no_verb_opens_a_connection(tmp_path):
    encoder, classifier, embedder, corpus, rows = (
        tmp_path / name for name in ("encoder", "classifier", "embedder", "c.txt", "r.tsv")
    )
    save_pretrained(small_encoder(("mlm", "nsp")), encoder, vocabulary={token: i for i, token in enumerate(VOCABULARY)})
    small_task(TextClassifier, labels=["cat", "dog"]).save(classifier)
    SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER).save(embedder)
    corpus.write_text("\n\n".join("the cat sat\non the mat\nanna likes ben" for _ in range(60)))
    rows.write_text("text\tlabel\n" + "".join(f"{example.text}\t{example.label}\n" for example in PETS))
    (tmp_path / "texts.txt").write_text("".join(f"{example.text}\n" for example in PETS))
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps({"_id": f"d{i}", "text": PETS[i].text}) + "\n" for i in range(6)))
    (tmp_path / "pairs.tsv").write_text("query\tpositive\n" + "".join(f"who {i}\t{PETS[i].text}\n" for i in range(3)))
    training = ["--steps", 2, "--batch-size", 4, "--max-seq-length", 16, "--held-out", 0]
    text, texts, out = "the cat sat", tmp_path / "texts.txt", lambda name: ["--output", tmp_path / name]
    noted, written = connections_of(
        tmp_path,
        ["vocab", corpus, "--vocab-size", 150, *out("vocab.txt")],
        ["prepare", corpus, "--tokenizer", encoder, "--processes", 1, *out("tokens")],
        ["pretrain", tmp_path / "tokens", "--init", encoder, *training, *out("run")],
        ["curves", tmp_path / "run"],
        ["distill", tmp_path / "tokens", "--teacher", encoder, "--num-hidden-layers", 1, *training, *out("student")],
        ["finetune", "classification", "--model", encoder, "--train", rows, "--dev", rows, "--epochs", 1, *out("tuned")],
        ["predict", "--model", classifier, "--input", texts, *out("answers.jsonl")],
        ["fill", encoder, "the [MASK] sat"],
        ["prune", "--model", classifier, "--amount", 0.3, "--dev", rows, *out("pruned")],
        ["plan", "--model", "tiny", "--gpu", "h100"],
        ["convert", "--model", encoder, "--format", "keras", *out("converted")],
        ["embed", texts, "--model", embedder, *out("vectors.npy")],
        ["index", tmp_path / "documents.jsonl", "--model", embedder, *out("index")],
        ["search", tmp_path / "index", "who sat"],
        [
            "mine",
            tmp_path / "pairs.tsv",
            "--corpus",
            tmp_path / "index",
            "--model",
            embedder,
            "--negatives",
            1,
            *out("groups.jsonl"),
        ],
        ["export", "--model", classifier, "--format", "huggingface", *out("exported")],
        ["inspect", "--model", encoder],
        ["explain", "--model", encoder],
        ["lens", "the cat [MASK]", "--model", encoder],
        ["probe", "--model", encoder, "--train", rows, "--dev", rows],
        ["why", text, "--model", classifier],
        ["attention", text, "--model", encoder, *out("attention.html")],
    )
    assert (noted, written) == ("", [])
