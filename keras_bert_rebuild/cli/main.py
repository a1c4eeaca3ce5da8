"""The entry point of `keras-bert`: errors of every kind become one sentence."""

import contextlib
import importlib
import os
import re
import shlex
import sys
from pathlib import Path

from keras_bert_rebuild.cli.arguments import model_folder
from keras_bert_rebuild.cli.option_values import described, model, size_or_path, tokenizer
from keras_bert_rebuild.cli.options import NAMES, VERBS
from keras_bert_rebuild.cli.parsers import parsed, parser_of
from keras_bert_rebuild.files.hub import located
from keras_bert_rebuild.files.locked import now_doing
from keras_bert_rebuild.files.printable import printable_lines
from keras_bert_rebuild.kernels.device_settings import (
    compile_quickly,
    keep_compiled_programs,
    keep_no_programs,
    set_matmul_precision,
)


def main(argv=None):
    """Run a verb.

    Args:
        argv: the arguments, or None for those of the process.

    Returns:
        The exit code: 0, or 2 for an error that the user can fix, with one sentence on standard error.
    """
    _escape_unprintable_names()
    args = parsed(argv)
    return args if isinstance(args, int) else run(args)


def run(args):
    """Run the verb of parsed arguments; return the exit code."""
    now_doing(f"`keras-bert {args.verb}`")
    try:
        apply_device_options(args)
        locate_models(args)
        module, _, function = VERBS[args.verb]["run"].rpartition(".")
        code = getattr(importlib.import_module(module), function)(args)
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


NONE = "none"
# Verbs whose runs are so short that compiling is much of their time.
SHORT = ("finetune",)


def apply_device_options(args):
    """Make the settings of --matmul-precision and --compilation-cache, before anything is compiled; verbs without them have none.

    Programs that cannot be kept are a note on standard error, and stop nothing.
    """
    if not hasattr(args, "compilation_cache"):
        return
    set_matmul_precision(args.matmul_precision)
    if args.verb in SHORT:
        compile_quickly()
    folder = args.compilation_cache
    if folder == NONE:
        keep_no_programs()
    elif reason := keep_compiled_programs(None if folder is None else Path(folder).expanduser().absolute()):
        print(f"keras-bert {args.verb}: compiled programs are not kept: {reason}", file=sys.stderr)


def locate_models(args):
    """Put the folders of models in place of runs and of names on the hub, whose files are downloaded if they are not there yet."""
    for action in parser_of(args.verb)._actions:
        value = getattr(args, action.dest, None)
        if value is None or action.type not in (model, tokenizer, described, size_or_path):
            continue
        if action.type is model:
            from keras_bert_rebuild.pretrained.find_checkpoint import located_model

            value = located_model(value)
        elif action.type is tokenizer:
            value = located(value, weights=False)
        folder = model_folder(value)
        setattr(args, action.dest, folder if action.type is tokenizer else str(folder))


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
    """A sentence about names in Python with the options of the verb."""
    options = {name: f"--{option}" for name, option in NAMES.items() if hasattr(args, option.replace("-", "_"))}
    options |= {action.dest: action.option_strings[0] for action in parser_of(args.verb)._actions if action.option_strings}
    for name, option in options.items():  # what was probably meant stands in a file of settings
        word = rf"(?<![\w/.-])(?<!did you mean ){name}(?![\w/-]|\.\w)" if "_" in name else rf"^{name}(?= must| needs)"
        sentence = re.sub(word, option, sentence)
    return sentence


# The errors of the backends: the module, used only if it is imported, and the names from there to the class.
_CLASSES = (
    ("tensorflow", ("errors", "ResourceExhaustedError")),
    ("torch", ("OutOfMemoryError",)),
    ("jax", ("errors", "JaxRuntimeError")),
)

# The words of a RuntimeError that is about memory.
_WORDS = ("RESOURCE_EXHAUSTED", "out of memory", "not enough memory", "can't allocate memory", "failed to allocate", "oom when")

# What helps a verb that says nothing of it.
_ANYWHERE = ("a smaller model", "fewer other programs", "a machine with more memory")


def memory_errors():
    """The classes of errors that may be about memory, of the backends that are imported."""
    classes = [MemoryError, RuntimeError]
    for module, names in _CLASSES:
        thing = sys.modules.get(module)
        for name in names:
            thing = getattr(thing, name, None)
        if isinstance(thing, type):
            classes.append(thing)
    return tuple(classes)


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
    *first, last = VERBS[args.verb].get("out_of_memory", _ANYWHERE)
    return f"out of memory{rows}: try {', '.join(first)}, or {last}."


if __name__ == "__main__":
    sys.exit(main())
