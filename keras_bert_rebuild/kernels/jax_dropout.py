"""JAX only: dropout, and attention with dropout, with cheap random bits that are drawn twice and never stored.

JAX's generator Threefry takes about a hundred integer operations per number, and its alternative `rbg` draws the bits of all
devices on each device. Here Threefry draws two words per row, and `row_hash` gives the bits of the columns. Bits of a row do not
depend on other rows, so each device computes only its own, and they are the same on any number of devices.
"""

import functools

import jax
import jax.numpy as jnp
import keras
from jax import lax

from keras_bert_rebuild.kernels.jax_dense import product
from keras_bert_rebuild.kernels.kernel import drops_some, kernel
from keras_bert_rebuild.kernels.row_hash import MIXING, gain_of, threshold
from keras_bert_rebuild.layers.keras_layers import Dropout
from keras_bert_rebuild.layers.masks import visible_pairs


def row_words(shape, seed):
    """Two random words for each row of an array, of which the first is odd: uint32 `(2, *shape[:-1], 1)`.

    Args:
        shape: shape of the array.
        seed: the `keras.random.SeedGenerator` to draw from, or two integers.
    """
    numbers = seed.next() if isinstance(seed, keras.random.SeedGenerator) else seed
    key = jax.random.wrap_key_data(jnp.asarray(numbers, "uint32"), impl="threefry2x32")
    words = jax.random.bits(key, (2, *shape[:-1], 1), "uint32")
    return words | jnp.reshape(jnp.array([1, 0], "uint32"), (2, *(1,) * (words.ndim - 1)))


def kept(words, columns, rate):
    """Which values are retained, bool in the shape of the array, and the factor of the retained ones.

    Args:
        words: from `row_words`.
        columns: size of the last axis.
        rate: dropout rate, in (0, 1), rounded to a multiple of 2⁻³².
    """
    column = lax.broadcasted_iota("uint32", (*words.shape[1:-1], columns), words.ndim - 2)
    return kept_at(words, column, rate), gain_of(rate)


def kept_at(words, columns, rate):
    """Which values are retained, from the words of their rows and their columns in uint32, which broadcast."""
    bits = columns * words[0] + words[1]
    for shift, factor in MIXING:
        bits = (bits ^ (bits >> shift)) * jnp.uint32(factor)
    return bits >= jnp.uint32(threshold(rate))


@kernel(Dropout.drop, "jax", when=drops_some)
def drop_by_row_words(rest, layer, x):
    """Threefry takes a hundred operations per number, a hash of two words per row eight; it is recomputed, not saved.

    Measured: Dropout on JAX
    """
    return drop(x, layer.rate, layer.seed_generator, layer.noise_shape)


def drop(x, rate, seed, noise_shape=None):
    """Dropout, whose gradient is the same dropout of the upstream gradient.

    Args:
        x: any array.
        rate: dropout rate, in (0, 1); retained values are divided by 1 − rate.
        seed: the `keras.random.SeedGenerator` to draw from, or two integers.
        noise_shape: the shape of the mask, which is broadcast; None in it for the size of the array; None for the array's shape.
    """
    shape = x.shape if noise_shape is None else tuple(x.shape[i] if size is None else size for i, size in enumerate(noise_shape))
    return _dropped(x, row_words(shape or (1,), seed), shape[-1] if shape else 1, rate)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _dropped(x, words, columns, rate):
    keep, gain = kept(words, columns, rate)
    return jnp.reshape(_where_kept(x, keep, gain), x.shape).astype(x.dtype)


def _dropped_forward(x, words, columns, rate):
    return _dropped(x, words, columns, rate), words


def _dropped_backward(columns, rate, words, upstream):
    # Only when the backward pass runs; otherwise XLA would reuse, and so save, the bits of the forward pass.
    words, upstream = lax.optimization_barrier((words, upstream))
    return _dropped(upstream, words, columns, rate), None


_dropped.defvjp(_dropped_forward, _dropped_backward)


def _where_kept(x, keep, gain):
    return jnp.where(keep, x.astype(jnp.promote_types(x.dtype, "float32")) * gain, 0)


def attention_with_dropout(query, key, value, mask, rate, seed):
    """softmax(Q Kᵀ / √K) V with a fraction of the probabilities dropped, the softmax in float32.

    Queries, keys, values, outputs and two numbers per query are saved for the backward pass; scores, probabilities and bits are
    recomputed.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries.
        mask: see `MultiHeadSelfAttention.visible`.
        rate: dropout rate, in (0, 1).
        seed: the `keras.random.SeedGenerator` to draw from, or two integers.

    Returns:
        `(batch, length, heads, width)`.
    """
    batch, length, heads, _ = query.shape
    words = row_words((batch, heads, length, key.shape[1]), seed)
    mask = jnp.asarray(visible_pairs(jnp.asarray(mask)), "bool")
    # Heads before tokens, the layout of matrix products, so that saved values need no transpose in the backward pass.
    query, key, value = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
    return jnp.swapaxes(attend_with_dropout(query, key, value, mask, words, rate), 1, 2)


def attend(query, key, value, mask):
    """`attention_with_dropout` at a rate of 0, for which XLA leaves out the random bits."""
    return attention_with_dropout(query, key, value, mask, 0.0, (0, 0))


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def attend_with_dropout(query, key, value, mask, words, rate):
    """`attention_with_dropout` in the layout `(batch, heads, length, width)`, with row words `(2, batch, heads, queries, 1)`."""
    return _attend_forward(query, key, value, mask, words, rate)[0]


def _attend_forward(query, key, value, mask, words, rate):
    scores = _scores(query, key, mask)
    maximum = jnp.max(scores, axis=-1, keepdims=True)
    exponentials = jnp.exp(scores - maximum)
    factor = 1 / jnp.sum(exponentials, axis=-1, keepdims=True)
    keep, gain = kept(words, key.shape[2], rate)
    outputs = _by_rows(_where_kept(exponentials * factor, keep, gain).astype(query.dtype), value)
    return outputs, (query, key, value, mask, words, outputs, maximum, factor)


def _attend_backward(rate, retained, upstream):
    """The gradients without a sum over keys, so that everything between the products is one pass.

    The sum over keys of probabilities times their gradients equals that of outputs times their gradients.

    Reference: Dao et al., 2022, appendix B.2 (https://arxiv.org/abs/2205.14135).
    """
    query, key, value, mask, words, outputs, maximum, factor = retained
    query, key, words, upstream = lax.optimization_barrier((query, key, words, upstream))
    keep, gain = kept(words, key.shape[2], rate)
    probabilities = jnp.exp(_scores(query, key, mask) - maximum) * factor
    of_probabilities = _where_kept(_pair_products(upstream, value), keep, gain)
    mean = jnp.sum(upstream.astype("float32") * outputs.astype("float32"), axis=-1, keepdims=True)
    of_scores = (probabilities * (of_probabilities - mean) * query.shape[-1] ** -0.5).astype(query.dtype)
    dropped = _where_kept(probabilities, keep, gain).astype(query.dtype)
    return _by_rows(of_scores, key), _by_columns(of_scores, query), _by_columns(dropped, upstream), None, None


attend_with_dropout.defvjp(_attend_forward, _attend_backward)


def _scores(query, key, mask):
    scores = _pair_products(query, key).astype("float32") * query.shape[-1] ** -0.5
    return jnp.where(mask, scores, -1e30)


def _pair_products(queries, keys):
    """The product of every query with every key."""
    return product(queries, keys, (3,), (3,), batch=2)


def _by_rows(weights, x):
    """The sums of `x` over keys, one for each query."""
    return product(weights, x, (3,), (2,), batch=2).astype(x.dtype)


def _by_columns(weights, x):
    """The sums of `x` over queries, one for each key."""
    return product(weights, x, (2,), (2,), batch=2).astype(x.dtype)
