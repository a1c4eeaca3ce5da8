"""The command `keras-bert` until Keras is imported: outside of the package, whose import is what can fail or be interrupted."""

import os
import shlex
import signal
import sys

BACKENDS = ("tensorflow", "jax", "torch")


def main():
    """Import the package and run its command; return the exit code, 2 with one sentence where the package cannot be imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else whoever started it wants it to go on
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    backend = os.environ.get("KERAS_BACKEND")
    if backend and backend not in BACKENDS:
        return _refuse(f"KERAS_BACKEND must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}; got {backend!a}.")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's notes on the processor are not the user's concern
    try:
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
    return run()


def _refuse(sentence):
    print(f"keras-bert: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
