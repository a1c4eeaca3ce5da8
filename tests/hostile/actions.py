"""The actions on hostile files: everything that a user would do with good ones."""

import contextlib
import io
import sys
import warnings

import numpy as np

from keras_bert_rebuild.cli.main import main
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader
from keras_bert_rebuild.data.corpora.token_store import TokenStore
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.pretrained import from_pretrained
from keras_bert_rebuild.recipes.run_folder import RunFolder, read_yaml
from keras_bert_rebuild.tasks.saved_task import load_task
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer
from keras_bert_rebuild.training.lora import load_lora
from keras_bert_rebuild.training.state.checkpoint import read_checkpoint

KINDS = {".csv": "classification", ".tsv": "classification", ".jsonl": "classification", ".conll": "tagging", ".json": "questions"}


class BrokenPromiseError(AssertionError):
    """The command line did something other than answer or print one sentence."""


def load(folder, file):
    """Inspect a checkpoint as a user would who received it, then load it."""
    command("inspect", path_of(folder, file))
    from_pretrained(path_of(folder, file))


def describe(folder, file):
    """Explain a config."""
    command("explain", folder / file)


def answer(folder, file):
    """Answer with a task."""
    del file
    load_task(folder)(["the cat sat on the mat"])


def tokenize(folder, file):
    """Cut texts."""
    del file
    load_tokenizer(folder).encode_batch(["the cat sat", "anna [MASK] \u212b\U0001f642"])


def store(folder, file):
    """Verify a store, and read what training reads."""
    del file
    found = TokenStore(folder)
    found.verify()
    found.ids_at(np.arange(found.num_tokens))


def labelled(folder, file):
    """Read examples."""
    suffix = next(end for end in reversed(KINDS) if end in file)
    read_examples(folder / file, KINDS[suffix])


def corpus(folder, file):
    """Read a corpus."""
    for block in CorpusReader(folder / file).blocks():
        assert block.documents


def settings(folder, file):
    """Read settings, and resume their run."""
    read_yaml(folder / file)
    RunFolder(folder, {"seed": 1, "lengths": [128, 512], "model": {"hidden_size": 8}})


def lora(folder, file):
    """Add the matrices of a file to a model."""
    from helpers.small_tasks import small_encoder

    load_lora(small_encoder(), folder / file)


def checkpoint(folder, file):
    """Read a checkpoint of a training."""
    del file
    found = read_checkpoint(folder)
    arrays = found.arrays()
    for name in arrays.names:
        arrays.read(name)


def path_of(folder, file):
    """The folder, where such a checkpoint is a folder, or the file."""
    return folder / file if file.endswith((".keras", ".h5")) and "tf_" not in file else folder


def command(*arguments):
    """Run `keras-bert`; its output may contain no control character."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    shown = out.getvalue() + err.getvalue()
    if code not in (0, 2) or "Traceback" in shown:
        raise BrokenPromiseError(f"exit code {code}: {shown[-300:]}")
    if code == 2 and not err.getvalue().startswith("keras-bert "):
        raise BrokenPromiseError(f"no sentence: {err.getvalue()[:300]!r}")
    bad = [char for char in shown if not char.isprintable() and char != "\n"]
    if bad:
        raise BrokenPromiseError(f"printed {bad[:5]!r}")


def outcome(action, folder, file):
    """The outcome of an input: "answered", "refused", or what was wrong."""
    warnings.simplefilter("ignore")
    try:
        globals()[action](folder, file)
    except (ValueError, OSError) as error:
        text = str(error)
        return "refused" if text and len(text) < 20_000 else f"no sentence: {text[:200]!r}"
    except (Exception, SystemExit) as error:
        frames = []
        trace = sys.exc_info()[2]
        while trace is not None:
            frames.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
            trace = trace.tb_next
        return f"{type(error).__name__}: {str(error)[:150]!r} at {' '.join(frames[-4:])}"
    return "answered"
