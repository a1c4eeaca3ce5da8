"""What the host does not wait for: predictions that are being computed, and batches on their way to the accelerator."""

import importlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits

# A backend whose dispatch does not wait, and its module: `begin` returns what is being computed, `put` begins a copy.
MODULES = {"jax": "keras_bert_rebuild.kernels.jax_asynchronous", "torch": "keras_bert_rebuild.kernels.torch_asynchronous"}

# On every backend the first call of a model makes its function, and Keras's own prediction on JAX donates the model's variables.
_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def dispatched(model: Any, inputs: Any) -> Any:
    """Begin to compute what `model.predict_on_batch` returns, and do not wait for it; safe to call from several threads.

    On TensorFlow, among several devices and for a model that runs eagerly it is `predict_on_batch`, which waits.

    Args:
        model: a Keras model.
        inputs: the inputs of a batch, checked.

    Returns:
        The outputs where they are computed, for `fetched`.
    """
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(model, threading.Lock())
    with lock:
        if not isinstance(model, keras.Model) or model.run_eagerly or keras.distribution.distribution() is not None:
            return model.predict_on_batch(inputs)
        if (module := MODULES.get(keras.config.backend())) is None:
            return model.predict_on_batch(inputs)
        return importlib.import_module(module).begin(model, inputs)


def fetched(outputs: Any) -> Any:
    """Wait for outputs of `dispatched` and return them as NumPy arrays of float32, or a structure of such arrays."""
    return keras.tree.map_structure(_on_host, outputs)


def _on_host(tensor):
    array = np.asarray(keras.ops.convert_to_numpy(tensor))
    return array.astype("float32", copy=False) if array.dtype.kind in "fV" else array


def put_ahead() -> Callable[[Any], Any] | None:
    """The function that begins to copy an array to the accelerator and returns what a step takes; it may run in any thread.

    Returns:
        None where it would not pay or where Keras does it: on a processor, whose memory it is in; on TensorFlow, whose steps take
        a batch from a pipeline; with a `keras.distribution`, by which Keras divides a batch. Ask in the thread that trains: Keras's
        distribution is a thread's.
    """
    if keras.config.backend() not in MODULES or not traits.runs_on_accelerator() or keras.distribution.distribution() is not None:
        return None
    return importlib.import_module(MODULES[keras.config.backend()]).put
