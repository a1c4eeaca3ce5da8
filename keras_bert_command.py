"""The command `keras-bert` until Keras is imported: outside of the package, whose import takes seconds and can fail.

A help, the version and a mistake in the options are answered before, from `cli/options.toml`, in which all options are plain data.
"""

import contextlib
import importlib.util
import logging
import os
import shlex
import signal
import sys
import tempfile
import warnings

BACKENDS = ("tensorflow", "jax", "torch")
PACKAGE = "keras_bert_rebuild"


def main():
    """Import the package and run its command; return the exit code, 2 with one sentence where the package cannot be imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else whoever started it wants it to go on
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    backend = os.environ.get("KERAS_BACKEND")
    if backend and backend not in BACKENDS:
        return _refuse(f"KERAS_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}; got {backend!a}.")
    import_keras = await_package()
    args = answered_early()
    if isinstance(args, int):
        return args
    first = _first_line(args.verb)
    if not args.verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors of TensorFlow are exceptions too
    try:
        with contextlib.nullcontext() if args.verbose else _without_notes(said=first):
            import_keras()
            from keras_bert_rebuild.cli.main import run
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        remaining = [backend for backend in BACKENDS if backend != name]
        way_out = f", or choose another with KERAS_BACKEND={remaining[0]} or {remaining[1]}" if name in BACKENDS else ""
        what = "the backend" if name in BACKENDS else "the package"
        return _refuse(f"{what} {name} is not installed: {shlex.quote(sys.executable)} -m pip install {name}{way_out}.")
    except (ImportError, ValueError, OSError) as error:  # a backend that is damaged or not known, also in ~/.keras/keras.json
        return _refuse(f"the backend cannot be imported: {' '.join(str(error).split())}")
    signal.signal(signal.SIGINT, before)
    if not args.verbose:
        quiet_libraries()
    return run(args)


def await_package():
    """Make modules of the package importable without what the package imports, which is Keras with its backend.

    Returns:
        A function that imports the package after all.
    """
    if PACKAGE in sys.modules:
        return lambda: None
    package = importlib.util.module_from_spec(importlib.util.find_spec(PACKAGE))
    sys.modules[PACKAGE] = package
    return lambda: package.__spec__.loader.exec_module(package)


def answered_early(arguments=None):
    """Print a help, the version or the mistake in the arguments, if that is the answer.

    Args:
        arguments: those of the command; None for those of the process.

    Returns:
        The parsed arguments if a verb is to run with them, else the exit code. A help and a mistake in an option end the process as
        argparse does.
    """
    from keras_bert_rebuild.cli.parsers import missing, parsed

    for stream in (sys.stdout, sys.stderr):  # a terminal may not know every character
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        args = parsed(arguments)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python reports it again at its end
        return _refuse(f"standard output: {error.strerror}.")
    sentence = None if isinstance(args, int) else missing(args)
    return args if sentence is None else _refuse(sentence, args.verb)


def _first_line(verb):
    """Print what a verb says before Keras is imported, if it does; return whether it does."""
    from keras_bert_rebuild.cli.options import VERBS

    first = VERBS[verb].get("first")
    if first is not None:
        with contextlib.suppress(OSError):  # nobody reads it: the verb says so itself
            print(first, flush=True)
    return first is not None


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
