"""Words that several verbs print: the line before long work, and counts."""

import sys

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.kernels.traits import name_of_backend, runs_on_accelerator


def begin(doing, what=""):
    """Print on a terminal what is begun, with the backend and its device: the first sign of life of a verb.

    Args:
        doing: a word such as "loading".
        what: a path.
    """
    if not sys.stderr.isatty():
        return
    device = "an accelerator" if runs_on_accelerator() else "the processor"
    print(f"{doing:<8} {printable(what)} ({name_of_backend()} on {device})", file=sys.stderr, flush=True)


def counted(number, thing):
    """A number with its thing, such as "1 file" and "1,200 files"."""
    return f"{number:,} {thing if number == 1 else _plural(thing)}"


def _plural(thing):
    return f"{thing[:-1]}ies" if thing.endswith("y") and thing[-2] not in "aeiou" else f"{thing}s"
