"""Gradients on JAX: with respect to inputs, and the factor that clips their global norm."""

import math

import jax
import keras
from keras import ops

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.jax_devices import is_on_cuda, is_split_by_batch
from keras_bert_rebuild.kernels.kernel import kernel


def value_and_gradient(function, tensors):
    """The value, the other tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and other tensors.
        tensors: a tensor, or a structure of them.
    """
    (value, more), gradient = jax.value_and_grad(function, has_aux=True)(tensors)
    return value, more, gradient


def without_history(function, *arguments):
    """Call a function: outside a gradient, JAX retains nothing."""
    return function(*arguments)


# Numbers of an array that is small: biases and norms of a block, not its kernels.
SMALL = 8192


def clips_on_cuda(*arguments):
    """Whether JAX computes on NVIDIA GPUs, each of which has all gradients."""
    return is_on_cuda() and is_split_by_batch()


@kernel(operations.clip_factor, "jax", when=clips_on_cuda)
def clip_factor(rest, gradients, norm):
    """XLA compiles and starts a kernel or two for the norm of each bias; all of them are one array here.

    Measured: GPU
    """
    arrays = [ops.cast(gradient, keras.backend.result_type(gradient.dtype, "float32")) for gradient in gradients]
    small = [ops.reshape(array, (-1,)) for array in arrays if math.prod(array.shape) <= SMALL]
    large = [array for array in arrays if math.prod(array.shape) > SMALL]
    global_norm = ops.sqrt(sum(ops.sum(ops.square(array)) for array in (*large, *([ops.concatenate(small)] if small else []))))
    return norm / ops.maximum(global_norm, norm) + (global_norm - global_norm)
