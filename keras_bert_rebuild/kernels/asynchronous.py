"""Asynchronous work: predictions that the device is computing, programs being compiled, and batches being copied to a device."""

import importlib
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.layers.seam import execution

# Backends with asynchronous dispatch, and their modules: `begin` returns outputs still being computed, `put` starts a copy.
MODULES = {"jax": "keras_bert_rebuild.kernels.jax_asynchronous", "torch": "keras_bert_rebuild.kernels.torch_asynchronous"}

# Guards, on every backend, the first call of a model, which creates its function; on JAX, Keras's own prediction donates variables.
_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def dispatched(model: Any, inputs: Any, variables: list[Any] | None = None) -> Any:
    """Start computing `model.predict_on_batch(inputs)` without waiting for it; safe to call from several threads.

    On TensorFlow, with several devices, and for a model that runs eagerly, this is `predict_on_batch`, which waits.

    Args:
        model: a Keras model.
        inputs: the inputs of a batch, already checked.
        variables: `model.variables`, if the caller has them: JAX needs them, and Keras looks through all layers for them.

    Returns:
        The outputs on the device, for `fetched`.
    """
    with _lock_of(model):
        module = MODULES.get(keras.config.backend()) if _is_compiled_for_one_device(model) else None
        if module is None:
            return model.predict_on_batch(inputs)
        return importlib.import_module(module).begin(model, inputs, variables)


def compiles_ahead(model: Any) -> bool:
    """Whether programs of a model are compiled in threads, before they are needed: on JAX and an accelerator.

    Not on a CPU: two cores compile two programs no faster than one after the other.
    """
    ahead = keras.config.backend() == "jax" and traits.runs_on_accelerator() and _is_compiled_for_one_device(model)
    return ahead and model.jit_compile


def compiled_ahead(model: Any, batches: Sequence[Any]) -> None:
    """Start compiling what `dispatched` needs for batches of these shapes, in threads; it waits for what it needs of them.

    Args:
        model: a Keras model that `compiles_ahead`.
        batches: the inputs of batches, already checked, each of another shape.
    """
    with _lock_of(model):
        importlib.import_module(MODULES["jax"]).compile_ahead(model, batches)


def train_compiled_ahead(model: Any, batches: Sequence[Any]) -> None:
    """Start compiling the training step for batches of these shapes, in threads; the first step waits for all of them.

    Args:
        model: a Keras model that `compiles_ahead`, with a new `train_function`, and with variables for all of its state.
        batches: batches as `fit` gets them, each of another shape.
    """
    if batches and not execution().rules:
        model.train_function = importlib.import_module(MODULES["jax"]).train_after_compiling(model, batches)


def _lock_of(model):
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(model, threading.Lock())


def _is_compiled_for_one_device(model):
    """Whether a model is not run eagerly and its batches are not divided over devices."""
    return isinstance(model, keras.Model) and not model.run_eagerly and keras.distribution.distribution() is None


def fetched(outputs: Any) -> Any:
    """Wait for the outputs of `dispatched` and return them as float32 NumPy arrays, or a structure of such arrays."""
    return keras.tree.map_structure(_on_host, outputs)


def _on_host(tensor):
    array = np.asarray(keras.ops.convert_to_numpy(tensor))
    return array.astype("float32", copy=False) if array.dtype.kind in "fV" else array


def put_ahead() -> Callable[[Any], Any] | None:
    """The function that starts copying an array to the accelerator and returns what a step takes; it may run in any thread.

    Returns:
        None where it would not help or Keras already does it: on a CPU, whose memory the array is in; on TensorFlow, whose steps
        take batches from a pipeline; with a `keras.distribution`, by which Keras divides a batch. Call it in the training thread,
        since Keras's distribution is per thread.
    """
    if keras.config.backend() not in MODULES or not traits.runs_on_accelerator() or keras.distribution.distribution() is not None:
        return None
    return importlib.import_module(MODULES[keras.config.backend()]).put
