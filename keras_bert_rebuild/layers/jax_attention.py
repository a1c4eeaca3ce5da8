"""Attention on JAX where a padding mask becomes key lengths, which is how cuDNN's fused kernel takes it.

The kernel takes no mask of one row for all queries, and Keras then falls back to scores that are written out.
"""

import jax
import jax.numpy as jnp

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

    Where padding stands before or between real keys, the real ones are moved to the front: attention asks for no order.

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
