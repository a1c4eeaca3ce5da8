"""JAX only: attention by segment ids with Pallas kernels that are part of JAX: a query attends to the keys with its number.

The modules are experimental, so they are only imported when a kernel runs; the conditions check that they exist.
"""

import functools
import importlib.util

import jax
import jax.numpy as jnp
import keras
from jax.sharding import PartitionSpec

SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"
FLASH = "jax.experimental.pallas.ops.gpu.attention"
# Columns of a TPU tile, and block size of queries and keys in the GPU kernel.
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


def has_flash_with_segments(query):
    """Whether the GPU kernel supports queries `(batch, length, heads, width)`: on one device, in whole blocks."""
    device = jax.devices()[0]
    if "cuda" not in device.client.platform_version or jax.device_count() > 1 or not _exists(FLASH):
        return False
    return float(device.compute_capability) >= 8 and query.shape[1] % TILE == 0 and 16 <= query.shape[-1] <= 128


def is_split_by_batch():
    """Whether a kernel that XLA does not partition may run: on one device, or on parts of a batch under a `DataParallel`."""
    return jax.device_count() == 1 or _data_parallel() is not None


def _data_parallel():
    distribution = keras.distribution.distribution()
    return distribution if isinstance(distribution, keras.distribution.DataParallel) else None


def over_devices(function):
    """A function of arrays whose first axis is the batch; under a `DataParallel`, each device computes its part.

    A batch that cannot be divided over devices is computed as a whole: Keras calls layers with such shapes to infer output shapes.
    """
    distribution = _data_parallel()
    if distribution is None:
        return function
    of_batch = PartitionSpec(distribution.batch_dim_name)
    mesh = distribution.device_mesh.backend_mesh
    split = jax.shard_map(function, mesh=mesh, in_specs=of_batch, out_specs=of_batch, check_vma=False)
    return lambda *arrays: (function if len(arrays[0]) % mesh.shape[distribution.batch_dim_name] else split)(*arrays)


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


def attend_by_flash(query, key, value, mask, interpret=False):
    """softmax(Q Kᵀ / √K) V over the keys of the sequence of a query, without storing scores.

    Args:
        query, key, value: `(batch, length, heads, width)`, the length a multiple of 128.
        mask: sequence numbers, int32 `(batch, length)`.
        interpret: compute on any device, slowly.

    Returns:
        `(batch, length, heads, width)`.
    """
    flash = importlib.import_module(FLASH)
    # By position, since `custom_vjp` has no names for non-differentiable arguments.
    scale, causal, blocks = query.shape[-1] ** -0.5, False, flash.BlockSizes.get_default()
    return flash.mha(query, key, value, mask, scale, causal, blocks, "triton", None, 2, None, interpret)
