"""Facts about the running backend, besides its kernels, for code that must act on them."""

import math
from typing import Any

import keras
import numpy as np


def compiles_each_shape(model: Any = None) -> bool:
    """Whether every new shape of a batch costs a compilation: on JAX always, on TensorFlow for a model compiled with XLA."""
    return _is("jax") or (_is("tensorflow") and model is not None and model.jit_compile)


def needs_tf_data_for_several_lengths() -> bool:
    """Whether `fit` takes batches of several lengths only as a `tf.data.Dataset` that declares it: TensorFlow."""
    return _is("tensorflow")


def takes_batches_as_tuples_only() -> bool:
    """Whether a batch of several arrays must be a tuple: TensorFlow makes one tensor of a list."""
    return _is("tensorflow")


def builds_optimizers_before_a_step() -> bool:
    """Whether an optimizer must be built before a step is traced: TensorFlow traces a step that makes variables twice."""
    return _is("tensorflow")


def gives_replicas_whole_single_batches() -> bool:
    """Whether every replica gets the whole of a single batch, and parts of predictions may be unequal: TensorFlow."""
    return _is("tensorflow")


def draws_dropout_from_the_process() -> bool:
    """Whether dropout without its own seed draws from the global generator of the process: torch."""
    return _is("torch")


def has_several_hosts() -> bool:
    """Whether processes on several hosts can train together: JAX."""
    return _is("jax")


def runs_on_accelerator() -> bool:
    """Whether tensors are made on a GPU or a TPU, and not on the processor."""
    device = keras.ops.zeros(()).device
    kind = getattr(device, "platform", None) or getattr(device, "type", None) or device
    return "cpu" not in str(kind).lower()


def _is(backend):
    return keras.config.backend() == backend


# JAX and torch use an array whose memory starts at a multiple of this, and copy any other.
ALIGNMENT = 64


def aligned_array(shape, dtype):
    """An array in new memory, which the system allocates, as zeros, only where it is written.

    Args:
        shape: of the array.
        dtype: of its numbers.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # np.zeros takes new memory from the system; np.empty may return memory that was written before.
    memory = np.zeros(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
