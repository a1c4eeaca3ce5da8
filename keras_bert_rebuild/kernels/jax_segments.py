"""JAX on TPUs: attention by segment ids with a Pallas kernel that is part of JAX.

The kernel's module is experimental, so it is only imported when it runs; the condition checks that it exists.
"""

import functools
import importlib.util

import jax
import jax.numpy as jnp

from keras_bert_rebuild.kernels.jax_devices import is_split_by_batch, over_devices

SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"
# Columns of a TPU tile.
TILE = 128


@functools.cache
def _exists(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a package around it is missing
        return False


def has_splash(query):
    """Whether the TPU kernel supports queries `(batch, length, heads, width)`: at least a tile of tokens.

    XLA does not partition the kernel, so several devices need a `keras.distribution.DataParallel`, which determines the parts.
    """
    return jax.devices()[0].platform == "tpu" and query.shape[1] >= TILE and _exists(SPLASH) and is_split_by_batch()


def attend_by_splash(query, key, value, mask, interpret=False):
    """softmax(Q Kᵀ / √K) V over the keys that the mask allows, without storing scores.

    Args:
        query, key, value: `(batch, length, heads, width)`.
        mask: `(batch, length)`, False at padding; or sequence numbers, int32.
        interpret: compute on any device, slowly.

    Returns:
        `(batch, length, heads, width)`. An example of padding only attends to all of it.
    """
    mask = jnp.asarray(mask)
    if mask.dtype == "bool":
        mask = jnp.where(jnp.any(mask, axis=1, keepdims=True), mask, True).astype("int32")
        numbers = jnp.ones_like(mask), mask
    else:
        numbers = mask, mask
    return over_devices(functools.partial(_splash, interpret=interpret))(query, key, value, *numbers)


def _splash(query, key, value, of_queries, of_keys, interpret):
    splash = importlib.import_module(SPLASH)
    length, heads, width = query.shape[1:]
    padded = -(-length // TILE) * TILE
    block = next(size for size in (4 * TILE, 2 * TILE, TILE) if padded % size == 0)
    names = ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq")
    kernel = splash.make_splash_mha(
        splash.MultiHeadMask([splash.FullMask((padded, padded))] * heads),
        block_sizes=splash.BlockSizes(**{f"block_{name}": block for name in names}),
        head_shards=1,
        q_seq_shards=1,
        interpret=interpret,
    )

    def rows(x):
        return jnp.pad(jnp.swapaxes(x, 1, 2), ((0, 0), (0, 0), (0, padded - length), (0, 0)))

    # Added tokens are padding; as queries they attend to the first key, so that each has one.
    end = ((0, 0), (0, padded - length))
    of_queries = jnp.concatenate([of_queries, jnp.broadcast_to(of_queries[:, :1], (len(query), padded - length))], axis=1)
    numbers = splash.SegmentIds(q=of_queries, kv=jnp.pad(of_keys, end, constant_values=-1))
    scaled = (query * width**-0.5).astype(query.dtype)
    attended = jax.vmap(kernel)(rows(scaled), rows(key), rows(value), numbers)
    return jnp.swapaxes(attended[:, :, :length], 1, 2).astype(query.dtype)
