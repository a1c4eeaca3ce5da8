"""Options that exclude each other are refused before anything is read."""

import pytest
from helpers.command_line import run_verb

FINETUNE = ["--model", "m", "--train", "t.tsv", "--dev", "d.tsv", "--output", "o"]


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("finetune", ["similarity", *FINETUNE, "--epochs", 1, "--steps", 2], "--epochs and --steps exclude each other"),
        ("finetune", ["classification", *FINETUNE, "--objective", "cosine"], "--objective is for similarity"),
        ("finetune", ["regression", *FINETUNE, "--class-weights", "balanced"], "--class-weights is for classification and"),
        ("pretrain", ["t", "--output", "o", "--init", "m", "--model", "tiny"], "--init and --model exclude each other"),
        ("pretrain", ["t", "--output", "o", "--held-out", 0, "--eval-batches", 5], "--eval-batches is for documents"),
        ("explain", ["--names", "google", "--max-seq-length", 5], "--names and --max-seq-length exclude each other"),
        ("explain", ["--names", "google", "--batch-size", 5], "--names and --batch-size exclude each other"),
        (
            "export",
            ["--model", "m", "--output", "o", "--format", "huggingface", "--pooling", "cls"],
            "--pooling belongs to formats",
        ),
        ("export", ["--model", "m", "--output", "o", "--heads", "nsp", "--normalize"], "--normalize is for vectors"),
        ("export", ["--model", "m", "--output", "o", "--calibrate", "f"], "--calibrate is only for --format openvino_int8"),
        (
            "convert",
            ["--model", "m", "--output", "o", "--format", "keras", "--dtype", "float16"],
            "--dtype float16 is for huggingface and google",
        ),
        ("search", ["i", "q", "--queries", "f", "--output", "o.tsv"], "expected a query or --queries FILE, and not both"),
        ("demo", ["--steps", 1, "--minutes", 1], "not allowed with"),
    ],
)
def test_options_that_exclude_each_other_are_refused(capsys, monkeypatch, tmp_path, verb, arguments, message):
    monkeypatch.chdir(tmp_path)
    said = run_verb(verb, capsys, *arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_million_processes_are_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").write_text("the cat\n")
    said = run_verb("prepare", capsys, "c", "--tokenizer", "v", "--output", "o", "--processes", 1_000_000)
    assert said.code == 2
    assert "workers must be at most 256, each a process with its own memory; got 1,000,000." in said.err
