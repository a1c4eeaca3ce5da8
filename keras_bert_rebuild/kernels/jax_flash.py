"""JAX on GPUs: attention with dropout, and of sequences in packed rows, as fused kernels in Pallas, compiled by Triton.

Each program processes one block of queries (or of keys) and loops over the blocks of keys (or of queries). Scores, probabilities
and random bits exist only in its registers, and the backward pass recomputes them. The bits equal those of `jax_dropout.py`, so
both compute the same function of a seed. Blocks of keys to which no query of a block may attend, because they are padding or
belong to other sequences of the row, are skipped.

Reference: Dao, 2023, FlashAttention-2, algorithms 1 and 2 (https://arxiv.org/abs/2307.08691).
"""

import functools

import jax
import jax.numpy as jnp

from keras_bert_rebuild.kernels.jax_devices import over_devices
from keras_bert_rebuild.kernels.jax_dropout import row_words
from keras_bert_rebuild.kernels.jax_flash_blocks import (
    block_bounds,
    block_power,
    blocks_for,
    filled_up,
    gradient_means,
    launched,
    parts_of,
    sequence_numbers,
)
from keras_bert_rebuild.kernels.jax_flash_kernels import Settings, forward_kernel, key_kernel, query_kernel


def attention_with_dropout(query, key, value, mask, rate, seed, blocks=None, interpret=False):
    """softmax(Q Kᵀ / √K) V with dropout of the probabilities and a softmax in float32; scores are never stored in memory.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries unless `mask` numbers sequences.
        mask: bool `(batch, keys)`, False at padding; or the sequence number of each token, int32 `(batch, length)`.
        rate: the dropout rate, in (0, 1).
        seed: the `keras.random.SeedGenerator` to draw from, or two integers.
        blocks: block sizes; None for `blocks_for`.
        interpret: run Pallas's interpreter, which works on any device, but slowly.

    Returns:
        `(batch, length, heads, width)`. An example that consists of padding only attends to all its keys.
    """
    batch, length, heads, _ = query.shape
    words = row_words((batch, heads, length, key.shape[1]), seed)[..., 0]
    attend = functools.partial(attend_by_numbers, rate=rate, blocks=blocks or blocks_for(query), interpret=interpret)
    return over_devices(attend)(query, key, value, *sequence_numbers(mask, batch, length), *words)


def attend_by_sequences(query, key, value, mask, blocks=None, interpret=False):
    """`attention_with_dropout` without dropout, for rows that hold several sequences.

    Args:
        query, key, value: `(batch, length, heads, width)`.
        mask: the sequence number of each token, int32 `(batch, length)`.
        blocks, interpret: as there.
    """
    batch, length, heads, _ = query.shape
    attend = functools.partial(attend_by_numbers, rate=0.0, blocks=blocks or blocks_for(query), interpret=interpret)
    unused = jnp.zeros((batch, heads, length), "uint32")
    return over_devices(attend)(query, key, value, *sequence_numbers(mask, batch, length), unused, unused)


def attend_by_numbers(query, key, value, of_queries, of_keys, *words, rate, blocks, interpret=False):
    """`attention_with_dropout` where queries attend to the keys with the same number.

    Lengths are padded to whole blocks, and head widths to a power of two.

    Args:
        query, key, value, rate, blocks, interpret: as for `attention_with_dropout`.
        of_queries, of_keys: numbers from 0, int32 `(batch, queries)` and `(batch, keys)`; every query needs a key.
        words: the two words of each row that seed its random bits, uint32 `(batch, heads, queries)` each; unused for a rate of 0.
    """
    (_, length, _, width), keys = query.shape, key.shape[1]
    blocks = blocks._replace(queries=min(blocks.queries, block_power(length)), keys=min(blocks.keys, block_power(keys)))
    more_queries, more_keys = -length % blocks.queries, -keys % blocks.keys

    def filled(x, more):
        return jnp.pad(x, ((0, 0), (0, more), (0, 0), (0, block_power(width) - width)))

    attended = _attend(
        Settings(rate, width**-0.5, blocks, interpret),
        *(filled(query, more_queries), filled(key, more_keys), filled(value, more_keys)),
        *filled_up(of_queries, of_keys, words, more_queries, more_keys),
    )
    return attended[:, :length, :, :width]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(settings, query, key, value, of_queries, of_keys, first, second):
    return _forward(settings, query, key, value, of_queries, of_keys, first, second)[0]


# A function of its own, here and below, so that a step translates each kernel to Triton once and not for every block.
@functools.partial(jax.jit, static_argnums=0)
def _forward(settings, query, key, value, of_queries, of_keys, first, second):
    batch, length, heads, width = query.shape
    block, whole = parts_of(settings.blocks.queries, width), parts_of(key.shape[1], width, whole=True)
    arrays = query, key, value, of_queries, of_keys, first, second
    outputs, log_sums = launched(
        forward_kernel,
        settings,
        (length // settings.blocks.queries, heads, batch),
        (block.tensor, whole.tensor, whole.tensor, block.numbers, whole.numbers, block.of_head, block.of_head, block.bounds),
        (block.tensor, block.of_head),
        (query, jax.ShapeDtypeStruct((batch, heads, length), "float32")),
    )(*arrays, block_bounds(of_queries, of_keys, settings.blocks.queries, settings.blocks.keys))
    return outputs, (*arrays, outputs, log_sums)


@functools.partial(jax.jit, static_argnums=0)
def _backward(settings, retained, upstream):
    query, key, value, of_queries, of_keys, first, second, outputs, log_sums = retained
    batch, length, heads, width = query.shape
    keys, blocks = key.shape[1], settings.blocks
    means = gradient_means(upstream, outputs, settings.rate)
    arrays = query, upstream, key, value, of_queries, of_keys, first, second, log_sums, means

    def call(kernel, count, of_queries, of_keys, bounds, outputs, shapes):
        inputs = (of_queries.tensor, of_queries.tensor, of_keys.tensor, of_keys.tensor, of_queries.numbers, of_keys.numbers)
        return launched(kernel, settings, (count, heads, batch), (*inputs, *4 * (of_queries.of_head,), bounds), outputs, shapes)

    block, whole = parts_of(blocks.queries, width), parts_of(keys, width, whole=True)
    of_query = call(query_kernel, length // blocks.queries, block, whole, block.bounds, block.tensor, query)(
        *arrays, block_bounds(of_queries, of_keys, blocks.queries, blocks.keys)
    )
    block, whole = parts_of(blocks.keys, width), parts_of(length, width, whole=True)
    of_key, of_value = call(key_kernel, keys // blocks.keys, whole, block, block.bounds, 2 * (block.tensor,), (key, value))(
        *arrays, block_bounds(of_keys, of_queries, blocks.keys, blocks.queries)
    )
    return of_query, of_key, of_value, None, None, None, None


_attend.defvjp(_forward, _backward)
