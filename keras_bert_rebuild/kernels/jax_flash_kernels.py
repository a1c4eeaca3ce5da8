"""JAX on GPUs: the Pallas kernels of `jax_flash.py`.

Their arguments are references to the parts of arrays that one program accesses, without the axes of examples and heads:
`(queries, width)`, `(keys, width)` or `(queries,)`, and the range of blocks to loop over.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas

from keras_bert_rebuild.kernels.jax_dropout import kept_at
from keras_bert_rebuild.kernels.row_hash import gain_of

# The score of masked keys, as in `jax_dropout.py`.
HIDDEN = -1e30
# Exponentials are computed as powers of 2, for which GPUs have an instruction.
LOG2_E = math.log2(math.e)


class Blocks(NamedTuple):
    """The launch parameters of a kernel: queries and keys of a block, warps of a program, and pipeline stages."""

    queries: int
    keys: int
    warps: int = 4
    stages: int = 2


class Settings(NamedTuple):
    """The compile-time constants of a kernel."""

    rate: float
    scale: float
    blocks: Blocks
    interpret: bool


def forward_kernel(settings, query, key, value, of_queries, of_keys, first, second, bounds, output, log_sum):
    """The outputs of a block of queries, and the base-2 logarithm of the sum of its exponentiated scores."""
    queries, numbers, words = query[...], of_queries[...], (first[...], second[...])
    size, unit = settings.blocks.keys, _unit(settings)

    def step(block, carry):
        outputs, maximum, total = carry
        keys = pallas.ds(block * size, size)
        scores = _scores(queries, key[keys, :], numbers, of_keys[keys])
        higher = jnp.maximum(maximum, jnp.max(scores, axis=1))
        # Above `HIDDEN`, since the fused difference of two equal products of that size is their rounding error.
        above = jnp.maximum(higher, HIDDEN / 2) * unit
        shrink, exponentials = jnp.exp2((maximum - higher) * unit), jnp.exp2(scores * unit - above[:, None])
        dropped = _dropped(_kept(settings, words, block), exponentials).astype(value.dtype)
        outputs = outputs * shrink[:, None] + _product(dropped, value[keys, :], 1, 0)
        return outputs, higher, total * shrink + jnp.sum(exponentials, axis=1)

    rows = len(queries)
    start = jnp.zeros(queries.shape, "float32"), jnp.full((rows,), HIDDEN, "float32"), jnp.zeros((rows,), "float32")
    outputs, maximum, total = lax.fori_loop(bounds[0], bounds[1], step, start)
    output[...] = (outputs * (gain_of(settings.rate) / total)[:, None]).astype(output.dtype)
    log_sum[...] = maximum * unit + jnp.log2(total)


def query_kernel(settings, query, upstream, key, value, of_queries, of_keys, first, second, log_sum, mean, bounds, of_query):
    """The gradient of a block of queries."""
    of_rows = query[...], upstream[...], of_queries[...], (first[...], second[...]), log_sum[...], mean[...]
    size = settings.blocks.keys

    def step(block, gradient):
        keys = pallas.ds(block * size, size)
        of_columns = key[keys, :], value[keys, :], of_keys[keys]
        of_scores, _ = _gradients_of_block(settings, of_rows, of_columns, block)
        return gradient + _product(of_scores, of_columns[0], 1, 0)

    gradient = lax.fori_loop(bounds[0], bounds[1], step, jnp.zeros(query.shape, "float32"))
    of_query[...] = (gradient * _factor(settings)).astype(of_query.dtype)


def key_kernel(settings, query, upstream, key, value, of_queries, of_keys, first, second, log_sum, mean, bounds, of_key, of_value):
    """The gradients of a block of keys and of its values."""
    of_columns, column = (key[...], value[...], of_keys[...]), pallas.program_id(0)
    size = settings.blocks.queries

    def step(block, carry):
        rows = pallas.ds(block * size, size)
        words = first[rows], second[rows]
        of_rows = query[rows, :], upstream[rows, :], of_queries[rows], words, log_sum[rows], mean[rows]
        of_scores, dropped = _gradients_of_block(settings, of_rows, of_columns, column)
        return carry[0] + _product(of_scores, of_rows[0], 0, 0), carry[1] + _product(dropped, of_rows[1], 0, 0)

    start = jnp.zeros(key.shape, "float32")
    keys, values = lax.fori_loop(bounds[0], bounds[1], step, (start, start))
    of_key[...] = (keys * _factor(settings)).astype(of_key.dtype)
    of_value[...] = (values * gain_of(settings.rate)).astype(of_value.dtype)


def _gradients_of_block(settings, of_rows, of_columns, block):
    """Gradients of scores divided by `_factor`, and the probabilities after dropout without its gain, `(queries, keys)` each."""
    query, upstream, of_queries, words, log_sum, mean = of_rows
    key, value, of_keys = of_columns
    probabilities = jnp.exp2(_scores(query, key, of_queries, of_keys) * _unit(settings) - log_sum[:, None])
    keep = _kept(settings, words, block)
    of_scores = probabilities * (_dropped(keep, _product(upstream, value, 1, 1)) - mean[:, None])
    return of_scores.astype(query.dtype), _dropped(keep, probabilities).astype(upstream.dtype)


def _scores(query, key, of_queries, of_keys):
    """Queries · keys, or `HIDDEN`."""
    return jnp.where(of_queries[:, None] == of_keys[None, :], _product(query, key, 1, 1), HIDDEN)


def _unit(settings):
    """The factor of queries · keys in the exponent of 2: multiplied there, it is one operation with the difference."""
    return settings.scale * LOG2_E


def _factor(settings):
    """The constant factor of the gradients of queries · keys, multiplied once at the end."""
    return settings.scale * gain_of(settings.rate)


def _dropped(keep, x):
    return x if keep is None else jnp.where(keep, x, 0.0)


def _kept(settings, words, block):
    """Which probabilities of a block of keys are kept; None for all."""
    if not settings.rate:
        return None
    size = settings.blocks.keys
    column = (block * size + lax.broadcasted_iota("int32", (1, size), 1)).astype("uint32")
    return kept_at([word[:, None] for word in words], column, settings.rate)


def _product(left, right, of_left, of_right):
    """The product over an axis of each, in float32."""
    return lax.dot_general(left, right, (((of_left,), (of_right,)), ((), ())), preferred_element_type="float32")
