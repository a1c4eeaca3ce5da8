"""The answer of a model to a batch in two halves, so that a device computes while the host does something else."""

import importlib
import threading
import weakref
from typing import Any

import keras
import numpy as np

# Where dispatch does not wait: a backend, and the module whose `begin` returns what is being computed.
MODULES = {"jax": "keras_bert_rebuild.kernels.jax_inference", "torch": "keras_bert_rebuild.kernels.torch_inference"}

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
