"""The factor that clips the global norm of gradients, without an operation for each of many small arrays."""

import math

import keras
from keras import ops

# Numbers of an array that is small: biases and norms of a block, not its kernels.
SMALL = 8192


def clip_factor(gradients, norm):
    """The factor that reduces the global norm of gradients to at most `norm`, at least float32; NaN if a gradient is not finite."""
    arrays = [ops.cast(gradient, keras.backend.result_type(gradient.dtype, "float32")) for gradient in gradients]
    small = [ops.reshape(array, (-1,)) for array in arrays if math.prod(array.shape) <= SMALL]
    large = [array for array in arrays if math.prod(array.shape) > SMALL]
    global_norm = ops.sqrt(sum(ops.sum(ops.square(array)) for array in (*large, *([ops.concatenate(small)] if small else []))))
    return norm / ops.maximum(global_norm, norm) + (global_norm - global_norm)
