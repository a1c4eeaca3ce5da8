"""The entry point of `keras-bert`: errors of every kind become one sentence."""

import argparse
import contextlib
import importlib
import json
import os
import re
import shlex
import sys

from keras_bert_rebuild.cli.device_options import apply_device_options
from keras_bert_rebuild.cli.examples import EXAMPLES
from keras_bert_rebuild.cli.older_names import renewed
from keras_bert_rebuild.cli.option_groups import arrange
from keras_bert_rebuild.cli.parser_table import FILE
from keras_bert_rebuild.cli.parsers import MORE, Help, Parser, add_verb, finish
from keras_bert_rebuild.cli.shared_options import OPTIONS
from keras_bert_rebuild.cli.verbs import VERBS
from keras_bert_rebuild.files.locked import now_doing
from keras_bert_rebuild.files.printable import printable_lines


def main(argv=None):
    """Run a verb.

    Args:
        argv: the arguments, or None for those of the process.

    Returns:
        The exit code: 0, or 2 for an error that the user can fix, with one sentence on standard error.
    """
    _escape_unprintable_names()
    table = json.loads(FILE.read_text(encoding="utf-8"))
    args = make_parser().parse_args(renewed(sys.argv[1:] if argv is None else argv, table))
    if args.version:
        from keras_bert_rebuild import __version__

        print(f"keras-bert {__version__}")
        return 0
    if args.verb is None:
        make_parser().print_help(sys.stderr)
        return 2
    now_doing(f"`keras-bert {args.verb}`")
    try:
        apply_device_options(args)
        code = importlib.import_module(next(module for verb, module, _ in VERBS if verb == args.verb)).run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _output_is_closed()
    except SystemExit as exit_:
        if isinstance(exit_.__context__, BrokenPipeError):  # raised by rich
            return _output_is_closed()
        raise
    except ModuleNotFoundError as error:
        return _refuse(args, _missing(error))
    except (ValueError, OSError) as error:
        return _refuse(args, _with_options(_sentence(error), args))
    except ImportError as error:  # another package is damaged or needs one that is missing
        return _refuse(args, " ".join(str(error).split()))
    except memory_errors() as error:
        if not is_of_memory(error):
            if "No space left" in str(error):
                return _refuse(args, "no space left on the disk.")
            raise
        return _refuse(args, memory_sentence(error, args))
    except KeyboardInterrupt:
        print(f"keras-bert {args.verb}: stopped", file=sys.stderr)
        return 130


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command with all verbs and their options."""
    parser = Parser(prog="keras-bert", description="BERT for Keras 3.", epilog=MORE, formatter_class=Help)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, module, text in VERBS:
        sub = add_verb(verbs, verb, text)
        importlib.import_module(module).add_arguments(sub)
        sub.add_argument("--verbose", action="store_true", help="show the log of the backend and its libraries")
        arrange(sub)
        finish(sub, EXAMPLES[verb])
    return parser


def _escape_unprintable_names():
    """File names may not be UTF-8, and a terminal may not know every character: escape what cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _refuse(args, sentence):
    print(f"keras-bert {args.verb}: {printable_lines(sentence)}", file=sys.stderr)
    return 2


def _output_is_closed():
    """The reader of the output has closed it: end as other programs do in a pipe."""
    with contextlib.suppress(OSError, ValueError):  # buffered output would be written again at the end of the process
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + 13


def _missing(error):
    """The message for a package that is not installed, with the command that installs it for this Python."""
    name = (error.name or "").partition(".")[0]
    if not name:
        return " ".join(str(error).split())
    return f"this needs the package {name}, which is not installed: {shlex.quote(sys.executable)} -m pip install {name}."


def _sentence(error):
    """The message of an error, without the error number of the operating system."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _with_options(sentence, args):
    """A sentence about names in Python with the options of the verb, where these have other names."""
    for name, option in OPTIONS.items():
        if hasattr(args, name) or hasattr(args, option.replace("-", "_")):
            word = rf"(?<![\w/.-]){name}(?![\w/-])" if "_" in name else rf"^{name}(?= must| needs)"
            sentence = re.sub(word, f"--{option}", sentence)
    return sentence


# The errors of the backends: the module, used only if it is imported, and the names from there to the class.
_CLASSES = (
    ("tensorflow", ("errors", "ResourceExhaustedError")),
    ("torch", ("OutOfMemoryError",)),
    ("jax", ("errors", "JaxRuntimeError")),
)

# The words of a RuntimeError that is about memory.
_WORDS = ("RESOURCE_EXHAUSTED", "out of memory", "not enough memory", "can't allocate memory", "failed to allocate", "oom when")

# From verbs to what helps.
REMEDIES = {
    "pretrain": (
        "a smaller --batch-size",
        "more --gradient-accumulation-steps, or --remat",
        "a shorter --max-seq-length",
    ),
    "finetune": ("a smaller --batch-size", "a shorter --max-seq-length", "--lora-rank 8 or --dtype mixed_bfloat16"),
    "predict": (
        "a smaller --batch-size",
        "a model that was fine-tuned with a shorter --max-seq-length",
        "a machine with more memory",
    ),
    "prune": (
        "a smaller --batch-size",
        "a model that was fine-tuned with a shorter --max-seq-length",
        "a machine with more memory",
    ),
    "embed": ("fewer --batch-tokens", "a shorter --max-seq-length", "--dtype mixed_bfloat16"),
    "index": ("fewer --batch-tokens", "a model that was fine-tuned with a shorter --max-seq-length", "a machine with more memory"),
    "search": ("a smaller --depth", "a smaller --top-k", "a machine with more memory"),
    "mine": ("a smaller --to-rank", "fewer pairs at once", "a machine with more memory"),
    "attention": ("a shorter --max-seq-length", "fewer --layers", "fewer --heads"),
    "lens": ("a shorter --max-seq-length", "fewer other programs", "a machine with more memory"),
    "probe": ("a smaller --limit", "a smaller --batch-size", "a shorter --max-seq-length"),
    "why": ("a smaller --batch-size", "a shorter text", "a machine with more memory"),
    "export": ("a shorter --max-seq-length", "fewer lines to calibrate with", "a machine with more memory"),
    "convert": ("--dtype float16", "fewer other programs", "a machine with more memory"),
    "prepare": ("fewer --processes", "fewer other programs", "a machine with more memory"),
    "demo": ("a smaller --corpus", "fewer other programs", "a machine with more memory"),
    "vocab": ("a smaller corpus", "fewer other programs", "a machine with more memory"),
}
_ANYWHERE = ("a smaller model", "fewer other programs", "a machine with more memory")


def memory_errors():
    """The classes of errors that may be about memory, of the backends that are imported."""
    found = [MemoryError, RuntimeError]
    for module, names in _CLASSES:
        thing = sys.modules.get(module)
        for name in names:
            thing = getattr(thing, name, None)
        if isinstance(thing, type):
            found.append(thing)
    return tuple(found)


def is_of_memory(error):
    """Whether an error of these classes is about memory; it may also be about a full disk."""
    if isinstance(error, MemoryError) or type(error).__name__ in ("OutOfMemoryError", "ResourceExhaustedError"):
        return "No space left" not in str(error)
    return any(words.lower() in str(error).lower() for words in _WORDS)


def memory_sentence(error, args):
    """The message for the user.

    Args:
        error: the error.
        args: the arguments of the verb; if the verb sets `used`, it has the resolved values, `(batch, length)`.
    """
    if type(error) is MemoryError and str(error):  # raised by this package, with what would not fit and what would
        return str(error)
    batch, length = getattr(args, "used", None) or (getattr(args, "batch_size", None), getattr(args, "max_len", None))
    sizes = [f"batches of {batch:,} rows"] if batch is not None else []
    if length is not None:
        tokens = length if isinstance(length, str) else f"{length:,}"
        sizes.append(f"{tokens} tokens" if sizes else f"rows of {tokens} tokens")
    rows = f" with {' of '.join(sizes)}" if sizes else ""
    *first, last = REMEDIES.get(args.verb, _ANYWHERE)
    return f"out of memory{rows}: try {', '.join(first)}, or {last}."


if __name__ == "__main__":
    sys.exit(main())
