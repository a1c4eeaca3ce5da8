"""JAX only: attention by key lengths, for which cuDNN has a fused kernel, values of loaded variables, batches put on the device.

The kernel takes no mask of one row for all queries; with such a mask Keras falls back to computing all scores.
"""

import jax
import jax.numpy as jnp
import numpy as np

from keras_bert_rebuild.kernels.traits import ALIGNMENT, aligned_array

DTYPES = ("bfloat16", "float16")
CAPABILITY = 8.0  # Ampere


def has_fused_kernel(query):
    """Whether cuDNN's kernel runs here for queries `(batch, length, heads, width)` of this dtype and width."""
    device = jax.devices()[0]
    if "cuda" not in device.client.platform_version:
        return False
    width = query.shape[-1]
    return float(device.compute_capability) >= CAPABILITY and str(query.dtype) in DTYPES and width % 8 == 0 and width <= 128


def attend_by_key_lengths(query, key, value, mask, implementation="cudnn"):
    """softmax(Q Kᵀ / √K) V over the keys that are not padding.

    If padding is before or between real keys, the real ones are moved to the front: attention does not depend on their order.

    Args:
        query, key, value: `(batch, length, heads, width)`.
        mask: `(batch, length)`, False at padding.
        implementation: that of `jax.nn.dot_product_attention`.

    Returns:
        `(batch, length, heads, width)`. An example of nothing but padding attends to its first key.
    """
    mask = jnp.asarray(mask, "bool")
    lengths = jnp.sum(mask, axis=-1, dtype="int32")
    in_front = jnp.all(mask == (jnp.arange(mask.shape[1]) < lengths[:, None]))

    def real_first(*tensors):
        order = jnp.argsort(~mask, axis=-1, stable=True)
        return tuple(jnp.take_along_axis(x, order[:, :, None, None], axis=1) for x in tensors)

    key, value = jax.lax.cond(in_front, lambda *tensors: tensors, real_first, key, value)
    lengths = jnp.maximum(lengths, 1)
    return jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths, implementation=implementation)


def unwritten(shape, dtype):
    """An array over memory that NumPy has allocated but not written."""
    return jax.device_put(aligned_array(shape, jnp.dtype(dtype)), may_alias=True)


def handed_over(array):
    """The array as a JAX array, copied only if necessary.

    JAX would copy later, in threads whose allocators do not release memory: up to 0.4 times the size of the model.
    """
    if not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
        array, given = aligned_array(array.shape, array.dtype), array
        np.copyto(array, given)
    return jax.device_put(array, may_alias=True)


def jax_has_accelerator():
    """Whether JAX computes on a GPU or TPU."""
    return jax.default_backend() != "cpu"


def jax_put(array):
    """A NumPy array as one on the accelerator; anything else as it is. The copy goes on while this returns."""
    return jax.device_put(array) if isinstance(array, np.ndarray) else array
