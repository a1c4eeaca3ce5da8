"""Values of variables that are loaded, on JAX: arrays of NumPy that it takes as its own.

Its own copies would be made in its own time by threads whose allocators give nothing back: up to 0.4 times the model.
"""

import jax
import jax.numpy as jnp
import numpy as np

from keras_bert_rebuild.checkpoints.read_array import ALIGNMENT, aligned_array


def jax_unwritten(shape, dtype):
    """An array over memory that NumPy has asked the system for and not written."""
    return jax.device_put(aligned_array(shape, jnp.dtype(dtype)), may_alias=True)


def jax_handed_over(array):
    """The array as one of JAX, copied only where it must be."""
    if not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
        array, given = aligned_array(array.shape, array.dtype), array
        np.copyto(array, given)
    return jax.device_put(array, may_alias=True)
