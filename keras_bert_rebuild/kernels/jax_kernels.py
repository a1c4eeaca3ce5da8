"""JAX only: attention with cuDNN's fused kernel, and values of variables that are loaded.

The kernel supports a mask of all pairs or the lengths of keys, but no mask broadcast over queries; with such a mask, Keras falls
back to materialising all scores.
"""

import jax
import jax.numpy as jnp
import numpy as np

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.jax_devices import AMPERE, is_on_cuda
from keras_bert_rebuild.kernels.kernel import kernel
from keras_bert_rebuild.kernels.traits import ALIGNMENT, aligned_array
from keras_bert_rebuild.layers.masks import visible_pairs

DTYPES = ("bfloat16", "float16")


def has_fused_kernel(query):
    """Whether cuDNN's kernel runs here for queries `(batch, length, heads, width)` of this dtype and width."""
    width = query.shape[-1]
    return str(query.dtype) in DTYPES and width % 8 == 0 and width <= 128 and is_on_cuda(AMPERE)


def attend_by_pairs(query, key, value, mask, implementation="cudnn"):
    """softmax(Q Kᵀ / √K) V over the keys that a mask allows, passed to the kernel as a mask of all pairs.

    Padding may be anywhere; the mask needs no branch and no copy of keys and values. It depends on the input only, so XLA computes
    it once for all blocks.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries.
        mask: see `MultiHeadSelfAttention.visible`.
        implementation: see `jax.nn.dot_product_attention`.

    Returns:
        `(batch, length, heads, width)`.
    """
    pairs = jnp.asarray(visible_pairs(jnp.asarray(mask)), "bool")
    # The kernel does not support a mask broadcast over queries.
    pairs = jnp.broadcast_to(pairs, (query.shape[0], 1, query.shape[1], key.shape[1]))
    return jax.nn.dot_product_attention(query, key, value, mask=pairs, implementation=implementation)


def attend_by_key_lengths(query, key, value, mask, implementation="cudnn"):
    """softmax(Q Kᵀ / √K) V over the keys that are not padding, for texts whose mask of pairs would be larger than their keys.

    Keys that are not padding are moved to the front, since attention does not depend on their order; a branch for texts without
    padding at the front would make the host wait in every block. The order depends on the input only: XLA computes it once.

    Args:
        query, key, value: `(batch, length, heads, width)`.
        mask: `(batch, length)`, False at padding.
        implementation: see `jax.nn.dot_product_attention`.

    Returns:
        `(batch, length, heads, width)`. An example of padding only attends to its first key.
    """
    mask = jnp.asarray(mask, "bool")
    order = jnp.argsort(~mask, axis=-1, stable=True)[:, :, None, None]
    key, value = (jnp.take_along_axis(x, order, axis=1, mode="promise_in_bounds") for x in (key, value))
    lengths = jnp.maximum(jnp.sum(mask, axis=-1, dtype="int32"), 1)
    return jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths, implementation=implementation)


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
