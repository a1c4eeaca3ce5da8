"""Running out of memory on any backend is one sentence with the batch size, the length and three remedies."""

import argparse
import re
import sys
import types

import pytest

from keras_bert_rebuild.cli import main as cli
from keras_bert_rebuild.cli.out_of_memory import REMEDIES, is_of_memory, memory_errors, memory_sentence


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
        "--max-len, or --lora-rank 8 or --dtype mixed_bfloat16.\n"
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
