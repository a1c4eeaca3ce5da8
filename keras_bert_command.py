"""The command `keras-bert` until Keras is imported: outside of the package, whose import takes seconds and can fail.

A help, a version and a mistake in the options are answered from `cli/parser.json`, in which all options are plain data.
"""

import contextlib
import importlib.util
import json
import logging
import os
import shlex
import signal
import sys
import tempfile
import warnings
from pathlib import Path

BACKENDS = ("tensorflow", "jax", "torch")

# What a verb says before Keras is imported, which takes seconds.
FIRST_LINES = {
    "demo": "BERT-base taken apart, then two small BERTs trained on this machine: about four minutes.\n"
    "Importing Keras and its backend ...",
}


def main():
    """Import the package and run its command; return the exit code, 2 with one sentence where the package cannot be imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else whoever started it wants it to go on
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    backend = os.environ.get("KERAS_BACKEND")
    if backend and backend not in BACKENDS:
        return _refuse(f"KERAS_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}; got {backend!a}.")
    known = answered_early(sys.argv[1:])
    if known is not None:
        return known
    first = FIRST_LINES.get(next(iter(sys.argv[1:]), None))
    if first:
        with contextlib.suppress(OSError):  # nobody reads it: the verb says so itself
            print(first, flush=True)
    verbose = "--verbose" in sys.argv
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors of TensorFlow are exceptions too
    try:
        with contextlib.nullcontext() if verbose else _without_notes(said=first is not None):
            from keras_bert_rebuild.cli.main import main as run
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        others = [other for other in BACKENDS if other != name]
        way_out = f", or choose another with KERAS_BACKEND={others[0]} or {others[1]}" if name in BACKENDS else ""
        what = "the backend" if name in BACKENDS else "the package"
        return _refuse(f"{what} {name} is not installed: {shlex.quote(sys.executable)} -m pip install {name}{way_out}.")
    except (ImportError, ValueError, OSError) as error:  # a backend that is damaged or not known, also in ~/.keras/keras.json
        return _refuse(f"the backend cannot be imported: {' '.join(str(error).split())}")
    signal.signal(signal.SIGINT, before)
    if not verbose:
        quiet_libraries()
    return run()


def answered_early(arguments):
    """Print a help, the version or the mistake in the arguments, if that is the answer.

    Args:
        arguments: those of the command.

    Returns:
        None if a verb is to run with them, else the exit code. A help and a mistake in an option end the process as argparse does.
    """
    folder = Path(next(iter(importlib.util.find_spec("keras_bert_rebuild").submodule_search_locations)))
    table = json.loads((folder / "cli" / "parser.json").read_text(encoding="utf-8"))
    parser = parser_of(table, folder / "cli")
    for stream in (sys.stdout, sys.stderr):  # a terminal may not know every character
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    given = parser.parse_args(_module(folder / "cli" / "older_names.py").renewed(arguments, table))
    if given.version:
        try:
            print(f"keras-bert {_module(folder / 'version.py').__version__}", flush=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python reports it again at its end
            return _refuse(f"standard output: {error.strerror}.")
        return 0
    if given.verb is None:
        parser.print_help(sys.stderr)
        return 2
    options = table["verbs"][given.verb]["options"]
    missing = _module(folder / "cli" / "missing_files.py").missing_file(options, vars(given))
    return None if missing is None else _refuse(missing, given.verb)


def parser_of(table, folder):
    """The parser of all verbs, with the same help as that of the package.

    Args:
        table: the content of `parser.json`.
        folder: that of the command line in the package.
    """
    parsers, groups = _module(folder / "parsers.py"), _module(folder / "option_groups.py")
    parser = parsers.Parser(prog="keras-bert", description=table["description"], epilog=parsers.MORE, formatter_class=parsers.Help)
    checks = {"int": int, "float": float, "flag": parsers.Flag, **vars(_module(folder / "option_kinds.py"))}
    _declare(parser, table, checks)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb, found in table["verbs"].items():
        sub = parsers.add_verb(verbs, verb, found["help"])
        _declare(sub, found, checks)
        groups.arrange(sub)
        parsers.finish(sub, found["examples"])
    return parser


def _declare(parser, table, checks):
    groups = {dest: names for names in table.get("alternatives", []) for dest in names}
    made = {}
    for option in table["options"]:
        option = dict(option)
        names, known = option.pop("names"), option.pop("known", None)
        if "type" in option:
            option["type"] = checks[option["type"]]
        if option.get("action") == "flag":
            option["action"] = checks["flag"]
        alternatives = groups.get(option.get("dest", names[0].lstrip("-").replace("-", "_")))
        where = parser
        if alternatives is not None:
            where = made.setdefault(tuple(alternatives), None) or parser.add_mutually_exclusive_group()
            made[tuple(alternatives)] = where
        if option.get("action") == "store_const":
            option["const"] = None
        where.add_argument(*names, **option).known = known


def _module(file):
    """A module of the package that imports nothing of it, without the import of the package."""
    spec = importlib.util.spec_from_file_location(f"_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _without_notes(said=True):
    """Keep from standard error what the libraries of a backend write there before the level of their log can be set.

    It is shown after all if the import fails. On a terminal a line says meanwhile what is awaited, unless that was said.
    """
    waits = not said and sys.stderr is not None and sys.stderr.isatty()
    if waits:
        print("importing Keras and its backend ...", end="", file=sys.stderr, flush=True)
    try:
        error = os.dup(2)
    except OSError:  # closed
        yield
        return
    with tempfile.TemporaryFile() as notes:
        sys.stderr.flush()
        os.dup2(notes.fileno(), 2)
        try:
            yield
        except Exception:
            os.dup2(error, 2)
            notes.seek(0)
            os.write(2, notes.read())
            raise
        finally:
            os.dup2(error, 2)
            os.close(error)
            if waits:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def quiet_libraries():
    """Show no log and no warning of a library, which a user can do nothing about; those of the package are one line each."""
    logging.disable(logging.WARNING)
    warnings.showwarning = _show_own


def _show_own(message, category, filename, lineno, file=None, line=None):
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == "warnings":
        frame = frame.f_back
    if frame is not None and str(frame.f_globals.get("__name__")).startswith("keras_bert_rebuild"):
        print(f"keras-bert: {' '.join(str(message).split())}", file=file or sys.stderr)


def _refuse(sentence, verb=None):
    print(f"{'keras-bert' if verb is None else f'keras-bert {verb}'}: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
