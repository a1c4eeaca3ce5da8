"""JAX only: dropout, and attention with dropout, whose random bits are cheap, are drawn twice and are never stored.

JAX's own generator, Threefry, takes about a hundred integer operations for a number, and its alternative `rbg` draws the bits of
all devices on each of them. Here Threefry draws two words for a row, the last axis, and a hash of these and the column gives the
bits of a number: about twenty operations, which XLA fuses with what uses the bits. They depend on no other row, so that every
device computes those of its own part, and they are the same on any number of devices.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from keras_bert_rebuild.kernels.sequences import visible_pairs


def row_words(shape, seed):
    """Two random words for each row of an array: uint32 `(2, *shape[:-1], 1)`.

    Args:
        shape: of the array.
        seed: two integers, as from `keras.random.SeedGenerator.next`.
    """
    key = jax.random.wrap_key_data(jnp.asarray(seed, "uint32"), impl="threefry2x32")
    return jax.random.bits(key, (2, *shape[:-1], 1), "uint32")


def kept(words, columns, rate):
    """Which numbers are kept, bool of the shape of the array, and the factor of the kept ones.

    Args:
        words: as from `row_words`.
        columns: the size of the last axis.
        rate: the fraction that is dropped, in (0, 1), rounded to a 2³²nd.
    """
    column = lax.broadcasted_iota("uint32", (*words.shape[1:-1], columns), words.ndim - 2)
    return kept_at(words, column, rate), gain_of(rate)


def kept_at(words, columns, rate):
    """Which numbers are kept, from the words of their rows and their columns in uint32, which broadcast."""
    return _mixed(_mixed(columns + words[0]) + words[1]) >= jnp.uint32(_threshold(rate))


def gain_of(rate):
    """By what the kept numbers are multiplied."""
    return 1 / (1 - _threshold(rate) / 2**32)


def _threshold(rate):
    return min(round(rate * 2**32), 2**32 - 1)


def _mixed(x):
    """A one-to-one function of 32 bits after which each of them depends on all.

    Reference: Wellons, 2018, "Prospecting for hash functions", lowbias32 (https://nullprogram.com/blog/2018/07/31/).
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def drop(x, rate, seed, noise_shape=None):
    """Dropout, whose gradient is the same dropout of the upstream gradient.

    Args:
        x: any array.
        rate: the fraction that is dropped, in (0, 1); the others are divided by 1 − rate.
        seed: two integers, as from `keras.random.SeedGenerator.next`.
        noise_shape: the shape that is drawn and broadcast, where a size of None is that of the array; None for its whole shape.
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
    # Only once the backward pass runs; otherwise XLA would take the bits of the forward pass and retain them.
    words, upstream = lax.optimization_barrier((words, upstream))
    return _dropped(upstream, words, columns, rate), None


_dropped.defvjp(_dropped_forward, _dropped_backward)


def _where_kept(x, keep, gain):
    return jnp.where(keep, x.astype(jnp.promote_types(x.dtype, "float32")) * gain, 0)


def attention_with_dropout(query, key, value, mask, causal, rate, seed):
    """softmax(Q Kᵀ / √K) V with a fraction of the probabilities dropped, the softmax in float32.

    Queries, keys, values and outputs are retained for the backward pass, and two numbers for each query; scores, probabilities and
    bits are computed again.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries.
        mask, causal: as for `operations.attention`.
        rate: the fraction that is dropped, in (0, 1).
        seed: two integers, as from `keras.random.SeedGenerator.next`.

    Returns:
        `(batch, length, heads, width)`.
    """
    batch, length, heads, _ = query.shape
    words = row_words((batch, heads, length, key.shape[1]), seed)
    mask = jnp.asarray(visible_pairs(jnp.asarray(mask), causal), "bool")
    # Heads before tokens, as products of matrices take them: what is retained need not be turned again in the backward pass.
    query, key, value = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
    return jnp.swapaxes(attend_with_dropout(query, key, value, mask, words, rate), 1, 2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def attend_with_dropout(query, key, value, mask, words, rate):
    """`attention_with_dropout` of `(batch, heads, length, width)`, with the words of rows `(2, batch, heads, queries, 1)`."""
    return _attend_forward(query, key, value, mask, words, rate)[0]


def _attend_forward(query, key, value, mask, words, rate):
    scores = _scores(query, key, mask)
    maximum = jnp.max(scores, axis=-1, keepdims=True)
    exponentials = jnp.exp(scores - maximum)
    factor = 1 / jnp.sum(exponentials, axis=-1, keepdims=True)
    keep, gain = kept(words, key.shape[2], rate)
    outputs = _where_kept(exponentials * factor, keep, gain).astype(query.dtype) @ value
    return outputs, (query, key, value, mask, words, outputs, maximum, factor)


def _attend_backward(rate, retained, upstream):
    """The gradients without a sum over keys, so that all between the products is one pass.

    The sum of probabilities times their gradients is that of outputs times theirs.

    Reference: Dao et al., 2022, appendix B.2 (https://arxiv.org/abs/2205.14135).
    """
    query, key, value, mask, words, outputs, maximum, factor = retained
    query, key, words, upstream = lax.optimization_barrier((query, key, words, upstream))
    keep, gain = kept(words, key.shape[2], rate)
    probabilities = jnp.exp(_scores(query, key, mask) - maximum) * factor
    of_probabilities = _where_kept(upstream @ jnp.swapaxes(value, 2, 3), keep, gain)
    mean = jnp.sum(upstream.astype("float32") * outputs.astype("float32"), axis=-1, keepdims=True)
    of_scores = (probabilities * (of_probabilities - mean) * query.shape[-1] ** -0.5).astype(query.dtype)
    dropped = _where_kept(probabilities, keep, gain).astype(query.dtype)
    return of_scores @ key, jnp.swapaxes(of_scores, 2, 3) @ query, jnp.swapaxes(dropped, 2, 3) @ upstream, None, None


attend_with_dropout.defvjp(_attend_forward, _attend_backward)


def _scores(query, key, mask):
    scores = (query @ jnp.swapaxes(key, 2, 3)).astype("float32") * query.shape[-1] ** -0.5
    return jnp.where(mask, scores, -1e30)
