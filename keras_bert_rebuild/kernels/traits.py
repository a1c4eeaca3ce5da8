"""Facts about the running backend, besides its kernels, that other code depends on."""

import math
from typing import Any

import keras
import numpy as np


def compiles_each_shape(model: Any = None) -> bool:
    """Whether every new batch shape must be compiled: on JAX always, on TensorFlow for a model compiled with XLA."""
    return _is("jax") or (_is("tensorflow") and model is not None and model.jit_compile)


def needs_tf_data_for_several_lengths() -> bool:
    """Whether `fit` accepts batches of several lengths only as a `tf.data.Dataset` that declares it: TensorFlow."""
    return _is("tensorflow")


def tunes_pipelines() -> bool:
    """Whether `fit` reads batches through a pipeline that a thread tunes, and waits for this thread at its end: TensorFlow."""
    return _is("tensorflow")


def takes_batches_as_tuples_only() -> bool:
    """Whether a batch of several arrays must be a tuple: TensorFlow converts a list to one tensor."""
    return _is("tensorflow")


def builds_optimizers_before_a_step() -> bool:
    """Whether an optimizer must be built before a step is traced: TensorFlow traces a step that creates variables twice."""
    return _is("tensorflow")


def gives_replicas_whole_single_batches() -> bool:
    """Whether every replica gets all of a single batch, and parts of predictions may be unequal: TensorFlow."""
    return _is("tensorflow")


def draws_dropout_from_the_process() -> bool:
    """Whether dropout without its own seed uses the global generator of the process: torch."""
    return _is("torch")


def loses_masks_of_outputs() -> bool:
    """Whether the outputs of a training step have no mask when metrics get them: JAX, whose gradients return bare arrays."""
    return _is("jax")


def has_several_hosts() -> bool:
    """Whether processes on several hosts can train together: JAX."""
    return _is("jax")


def runs_on_accelerator() -> bool:
    """Whether tensors are on a GPU or TPU, not on the CPU."""
    device = keras.ops.zeros(()).device
    kind = getattr(device, "platform", None) or getattr(device, "type", None) or device
    return "cpu" not in str(kind).lower()


def is_half(dtype: str) -> bool:
    """Whether a dtype is a half precision one, in which backends lose most of a sum over many tokens."""
    return dtype in ("bfloat16", "float16")


def on_host(values: Any) -> Any:
    """The values of a tensor or array on the host; None while a function is traced."""
    if not keras.ops.is_tensor(values):
        return values if values is None else np.asarray(values)
    try:
        return keras.ops.convert_to_numpy(values)
    except (TypeError, NotImplementedError, RuntimeError):  # JAX's tracers, TensorFlow's symbolic tensors, torch's fake tensors
        return None


def name_of_backend() -> str:
    """The backend for a reader: tensorflow, jax or torch."""
    return keras.config.backend()


def _is(backend):
    return keras.config.backend() == backend


# JAX and torch use an array in place if its memory is aligned to this many bytes, and copy it otherwise.
ALIGNMENT = 64


def aligned_array(shape, dtype):
    """An array in new memory, which the system only allocates, as zeros, when it is written.

    Args:
        shape: shape of the array.
        dtype: dtype of the array.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # np.zeros gets new memory from the system; np.empty may return memory that was written before.
    memory = np.zeros(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
