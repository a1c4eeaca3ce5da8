"""Operations on JAX outside of layers: gradients by inputs, the factor that clips a norm, values of variables that are loaded."""

import math

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.jax_devices import is_on_cuda, is_split_by_batch
from keras_bert_rebuild.kernels.kernel import kernel
from keras_bert_rebuild.kernels.traits import ALIGNMENT, aligned_array


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


@kernel(operations.unwritten, "jax")
def unwritten(rest, shape, dtype):
    """Zeros would take the memory of a variable until it is filled: this memory NumPy has allocated, but not written.

    Measured: Loading
    """
    return jax.device_put(aligned_array(shape, jnp.dtype(dtype)), may_alias=True)


@kernel(operations.handed_over, "jax")
def handed_over(rest, array):
    """The array as a JAX array, copied only if necessary: JAX would copy later, in threads that do not release their memory.

    That is up to 0.4 times the size of the model.

    Measured: Loading
    """
    if not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
        array, unaligned = aligned_array(array.shape, array.dtype), array
        np.copyto(array, unaligned)
    return jax.device_put(array, may_alias=True)
