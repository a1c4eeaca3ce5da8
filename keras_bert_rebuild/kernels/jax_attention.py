"""Kernels of attention on JAX, from the most special one to the most general.

Those written in Pallas are imported when they first run: a GPU or a TPU needs them, a processor does not. Where they run and are
right, `jax_trials` finds out.
"""

import functools
import importlib.util

import jax
import jax.numpy as jnp

from keras_bert_rebuild.kernels import jax_dropout, jax_trials
from keras_bert_rebuild.kernels.jax_dense import gives_float32
from keras_bert_rebuild.kernels.jax_devices import AMPERE, is_on_cuda, is_split_by_batch, over_devices
from keras_bert_rebuild.kernels.kernel import (
    FORMULA,
    drops,
    drops_nothing,
    drops_probabilities,
    is_plain,
    kernel,
    masks_keys,
    masks_sequences,
)
from keras_bert_rebuild.layers.masks import has_sequences, visible_pairs
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention

SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"
# Columns of a TPU tile.
TILE = 128
# What cuDNN's fused kernel computes in. It supports a mask of all pairs or the lengths of keys, but no mask broadcast over queries.
CUDNN_DTYPES = ("bfloat16", "float16")


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


def splash_attention(query, key, value, mask, interpret=False):
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


ATTEND = MultiHeadSelfAttention.attend


def _attends_to_products(layer, inputs, mask=None, training=None, positions=None):
    """Dropout or sequences, of plain products without rotary positions, on a GPU on which the kernel has passed its trial."""
    if type(layer).call is not MultiHeadSelfAttention.call or mask is None or layer.rotary_theta is not None:
        return False
    dropping, denses = drops(layer, training), (layer.query_dense, layer.key_dense, layer.value_dense)
    needed = masks_keys(layer, mask) and (dropping or has_sequences(mask))
    return needed and all(map(is_plain, denses)) and jax_trials.has_merged_flash(denses[0], layer.head_num, dropping)


@kernel(MultiHeadSelfAttention.call, "jax", when=_attends_to_products, passes=(MultiHeadSelfAttention.project, ATTEND, *FORMULA))
def attend_to_inputs(rest, layer, inputs, mask=None, training=None, positions=None):
    """One product in place of three; without passes over memory for their biases, and for the sum and the copies of gradients.

    Measured: Where a step on a GPU spends its time
    """
    from keras_bert_rebuild.kernels import jax_flash_merged

    denses = layer.query_dense, layer.key_dense, layer.value_dense
    return layer.merge(jax_flash_merged.attend_to_inputs(inputs, denses, layer.head_num, mask, *_dropout(layer, training)))


def _drops_in_flash(layer, query, key, value, mask=None, training=None, *shared):
    """Dropout, with a mask of keys, on a GPU on which the kernel has passed its trial."""
    drops_some = drops_probabilities(layer, query, key, value, mask, training, *shared)
    return drops_some and masks_keys(layer, mask) and jax_trials.has_flash(query, True)


@kernel(ATTEND, "jax", when=_drops_in_flash, passes=FORMULA)
def attend_in_flash(rest, layer, query, key, value, mask, training=None):
    """Keeps scores, probabilities and random bits out of memory, which the next form writes and reads about six times.

    Measured: Attention on a GPU
    """
    from keras_bert_rebuild.kernels import jax_flash

    return jax_flash.attention_with_dropout(query, key, value, mask, *_dropout(layer, training))


@kernel(ATTEND, "jax", when=drops_probabilities, passes=FORMULA)
def attend_with_dropout(rest, layer, query, key, value, mask, training=None):
    """Saves queries, keys and values; the plain form saves three arrays of probabilities, and its random bits are expensive.

    Measured: Dropout on JAX
    """
    return jax_dropout.attention_with_dropout(query, key, value, layer.visible(mask, query), *_dropout(layer, training))


def _takes_splash(layer, query, key, value, mask=None, training=None, *shared):
    """A mask of keys, without dropout, where JAX's TPU kernel runs."""
    plain = drops_nothing(layer, query, key, value, mask, training, *shared)
    return plain and masks_keys(layer, mask) and has_splash(query)


@kernel(ATTEND, "jax", when=_takes_splash, passes=FORMULA)
def attend_by_splash(rest, layer, query, key, value, mask, training=None):
    """Keras materialises and saves all scores if the mask is an argument of the compiled step.

    Measured: tests/kernels/test_jax_attention.py for the values, tests/tpu for the compiler; no figure of a TPU yet
    """
    return splash_attention(query, key, value, mask)


def _takes_sequences(layer, query, key, value, mask=None, training=None, *shared):
    """Rows with several sequences, without dropout, on a GPU on which the kernel has passed its trial."""
    plain = drops_nothing(layer, query, key, value, mask, training, *shared)
    return plain and masks_sequences(layer, mask) and jax_trials.has_flash(query, False)


@kernel(ATTEND, "jax", when=_takes_sequences, passes=FORMULA)
def attend_by_sequences(rest, layer, query, key, value, mask, training=None):
    """Skips the blocks of other sequences, where cuDNN reads a mask of all pairs; even with dropout it is faster than that.

    Measured: Attention on a GPU
    """
    from keras_bert_rebuild.kernels import jax_flash

    return jax_flash.attend_by_sequences(query, key, value, mask)


def has_fused_kernel(query):
    """Whether cuDNN's kernel runs here for queries `(batch, length, heads, width)` of this dtype and width."""
    width = query.shape[-1]
    return str(query.dtype) in CUDNN_DTYPES and width % 8 == 0 and width <= 128 and is_on_cuda(AMPERE)


def cudnn_by_pairs(query, key, value, mask, implementation="cudnn"):
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
    pairs = jnp.broadcast_to(pairs, (query.shape[0], 1, query.shape[1], key.shape[1]))
    return jax.nn.dot_product_attention(query, key, value, mask=pairs, implementation=implementation)


def cudnn_by_key_lengths(query, key, value, mask, implementation="cudnn"):
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


def _has_pairs_in_cudnn(layer, query, key, value, mask=None, training=None, *shared):
    """Without dropout, even lengths, in half precision, if cuDNN's kernel runs: pairs given, or at most twice the hidden size.

    A mask of pairs is read three times, 2 bytes each; moving keys and values and back is eight passes over 2-byte numbers.
    """
    if not drops_nothing(layer, query, key, value, mask, training, *shared) or layer.history_only:
        return False
    length, of_keys = query.shape[1], mask.shape[-1]
    short = len(mask.shape) == 4 or length <= 2 * query.shape[2] * query.shape[3]
    return short and length % 2 == 0 and of_keys % 2 == 0 and has_fused_kernel(query)


@kernel(ATTEND, "jax", when=_has_pairs_in_cudnn, passes=FORMULA)
def attend_by_pairs(rest, layer, query, key, value, mask, training=None):
    """cuDNN takes a mask of all pairs; given a mask of keys, Keras materialises and saves all scores.

    Measured: Attention on a GPU
    """
    return cudnn_by_pairs(query, key, value, layer.visible(mask, query))


def _takes_key_lengths(layer, query, key, value, mask=None, training=None, *shared):
    """Padding in half precision, without dropout, if cuDNN's kernel runs."""
    plain = drops_nothing(layer, query, key, value, mask, training, *shared) and masks_keys(layer, mask)
    return plain and not has_sequences(mask) and has_fused_kernel(query)


@kernel(ATTEND, "jax", when=_takes_key_lengths, passes=FORMULA)
def attend_by_key_lengths(rest, layer, query, key, value, mask, training=None):
    """cuDNN takes the lengths of keys, which are smaller than a mask of all pairs.

    Measured: tests/kernels/test_jax_attention.py for the values; no GPU figure yet
    """
    return cudnn_by_key_lengths(query, key, value, mask)


def _attends_on_processor(layer, query, key, value, mask=None, training=None, *shared):
    """Without dropout, in bfloat16 on a processor."""
    plain = drops_nothing(layer, query, key, value, mask, training, *shared) and not layer.history_only
    return plain and gives_float32(str(query.dtype))


@kernel(ATTEND, "jax", when=_attends_on_processor, passes=FORMULA)
def attend_on_processor(rest, layer, query, key, value, mask, training=None):
    """XLA multiplies as in float32, at half the speed, unless the result is float32.

    Measured: Products of bfloat16 on JAX
    """
    return jax_dropout.attend(query, key, value, layer.visible(mask, query))


def _dropout(layer, training):
    """The rate of dropout, and the generator of its seeds."""
    return (layer.attention_dropout, layer.dropout.seed_generator) if drops(layer, training) else (0.0, (0, 0))
