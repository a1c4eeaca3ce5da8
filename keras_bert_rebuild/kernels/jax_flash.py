"""JAX on GPUs: attention with dropout, and of sequences in packed rows, as fused kernels in Pallas, compiled by Triton.

Each program processes one block of queries (or of keys) and loops over the blocks of keys (or of queries). Scores, probabilities
and random bits exist only in its registers, and the backward pass recomputes them. The bits equal those of `jax_dropout.py`, so
both compute the same function of a seed. Blocks of keys to which no query of a block may attend, because they are padding or
belong to other sequences of the row, are skipped.

Reference: Dao, 2023, FlashAttention-2, algorithms 1 and 2 (https://arxiv.org/abs/2307.08691).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from keras_bert_rebuild.kernels.jax_devices import over_devices
from keras_bert_rebuild.kernels.jax_dropout import row_words
from keras_bert_rebuild.kernels.jax_flash_kernels import Blocks, Settings, forward_kernel, key_kernel, query_kernel
from keras_bert_rebuild.kernels.sequences import has_sequences

# The smallest side of a matrix that the tensor cores multiply.
LEAST = 16


def blocks_for(query):
    """The block sizes for queries of this width and dtype; larger blocks would spill registers to memory."""
    size = 64 if query.shape[-1] * query.dtype.itemsize <= 128 else 32
    return Blocks(size, size)


def attention_with_dropout(query, key, value, mask, causal, rate, seed, blocks=None, interpret=False):
    """softmax(Q Kᵀ / √K) V with dropout of the probabilities and a softmax in float32; scores are never stored in memory.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries unless `mask` numbers sequences.
        mask: bool `(batch, keys)`, False at padding; or the sequence number of each token, int32 `(batch, length)`.
        causal: False; the kernel has no causal form.
        rate: the dropout rate, in (0, 1).
        seed: two integers, as from `keras.random.SeedGenerator.next`.
        blocks: block sizes; None for `blocks_for`.
        interpret: run Pallas's interpreter, which works on any device, but slowly.

    Returns:
        `(batch, length, heads, width)`. An example that consists of padding only attends to all its keys.
    """
    batch, length, heads, _ = query.shape
    words = row_words((batch, heads, length, key.shape[1]), seed)[..., 0]
    attend = functools.partial(attend_by_numbers, rate=rate, blocks=blocks or blocks_for(query), interpret=interpret)
    return over_devices(attend)(query, key, value, *_numbers(mask, batch, length), *words)


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
    return over_devices(attend)(query, key, value, *_numbers(mask, batch, length), unused, unused)


def _numbers(mask, batch, length):
    """A number for each query and each key, int32; a query attends to the keys with the same number."""
    mask = jnp.broadcast_to(jnp.asarray(mask), (batch, mask.shape[1]))
    if has_sequences(mask):
        return mask, mask
    mask = jnp.where(jnp.any(mask, axis=1, keepdims=True), mask, True)
    return jnp.ones((batch, length), "int32"), mask.astype("int32")


def attend_by_numbers(query, key, value, of_queries, of_keys, *words, rate, blocks, interpret=False):
    """`attention_with_dropout` where queries attend to the keys with the same number.

    Lengths are padded to whole blocks, and head widths to a power of two.

    Args:
        query, key, value, rate, blocks, interpret: as for `attention_with_dropout`.
        of_queries, of_keys: numbers from 0, int32 `(batch, queries)` and `(batch, keys)`; every query needs a key.
        words: the two words of each row that seed its random bits, uint32 `(batch, heads, queries)` each; unused for a rate of 0.
    """
    (_, length, _, width), keys = query.shape, key.shape[1]
    blocks = blocks._replace(queries=min(blocks.queries, _power(length)), keys=min(blocks.keys, _power(keys)))
    more_queries, more_keys = -length % blocks.queries, -keys % blocks.keys

    def filled(x, more):
        return jnp.pad(x, ((0, 0), (0, more), (0, 0), (0, _power(width) - width)))

    attended = _attend(
        Settings(rate, width**-0.5, blocks, interpret),
        *(filled(query, more_queries), filled(key, more_keys), filled(value, more_keys)),
        # Padded queries attend to the keys of the last query; no query attends to padded keys.
        jnp.pad(of_queries, ((0, 0), (0, more_queries)), mode="edge"),
        jnp.pad(of_keys, ((0, 0), (0, more_keys)), constant_values=-1),
        *(jnp.pad(word, ((0, 0), (0, 0), (0, more_queries))) for word in words),
    )
    return attended[:, :length, :, :width]


def _power(size):
    return max(LEAST, pallas.next_power_of_2(size))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(settings, query, key, value, of_queries, of_keys, first, second):
    return _forward(settings, query, key, value, of_queries, of_keys, first, second)[0]


def _forward(settings, query, key, value, of_queries, of_keys, first, second):
    batch, length, heads, width = query.shape
    block, whole = _parts(settings.blocks.queries, width), _parts(key.shape[1], width, whole=True)
    arrays = query, key, value, of_queries, of_keys, first, second
    outputs, log_sums = _call(
        forward_kernel,
        settings,
        (length // settings.blocks.queries, heads, batch),
        (block.tensor, whole.tensor, whole.tensor, block.numbers, whole.numbers, block.of_head, block.of_head, block.bounds),
        (block.tensor, block.of_head),
        (query, jax.ShapeDtypeStruct((batch, heads, length), "float32")),
    )(*arrays, _bounds(of_queries, of_keys, settings.blocks.queries, settings.blocks.keys))
    return outputs, (*arrays, outputs, log_sums)


def _backward(settings, retained, upstream):
    """The gradients. Σ over keys of probabilities × their gradients equals Σ over the width of outputs × their gradients."""
    query, key, value, of_queries, of_keys, first, second, outputs, log_sums = retained
    batch, length, heads, width = query.shape
    keys, blocks = key.shape[1], settings.blocks
    means = jnp.swapaxes(jnp.sum(upstream.astype("float32") * outputs.astype("float32"), axis=-1), 1, 2)
    arrays = query, upstream, key, value, of_queries, of_keys, first, second, log_sums, means

    def call(kernel, count, of_queries, of_keys, bounds, outputs, shapes):
        inputs = (of_queries.tensor, of_queries.tensor, of_keys.tensor, of_keys.tensor, of_queries.numbers, of_keys.numbers)
        return _call(kernel, settings, (count, heads, batch), (*inputs, *4 * (of_queries.of_head,), bounds), outputs, shapes)

    block, whole = _parts(blocks.queries, width), _parts(keys, width, whole=True)
    of_query = call(query_kernel, length // blocks.queries, block, whole, block.bounds, block.tensor, query)(
        *arrays, _bounds(of_queries, of_keys, blocks.queries, blocks.keys)
    )
    block, whole = _parts(blocks.keys, width), _parts(length, width, whole=True)
    of_key, of_value = call(key_kernel, keys // blocks.keys, whole, block, block.bounds, 2 * (block.tensor,), (key, value))(
        *arrays, _bounds(of_keys, of_queries, blocks.keys, blocks.queries)
    )
    return of_query, of_key, of_value, None, None, None, None


_attend.defvjp(_forward, _backward)


class Parts(NamedTuple):
    """The parts of the arrays of queries (or keys) that one program accesses: a block, or the whole length."""

    tensor: Any
    """`(batch, length, heads, width)`."""
    numbers: Any
    """`(batch, length)`."""
    of_head: Any
    """`(batch, heads, length)`."""
    bounds: Any
    """`(batch, blocks, 2)`."""


def _parts(size, width, whole=False):
    def place(index):
        return 0 if whole else index

    return Parts(
        pallas.BlockSpec((None, size, None, width), lambda i, head, example: (example, place(i), head, 0)),
        pallas.BlockSpec((None, size), lambda i, head, example: (example, place(i))),
        pallas.BlockSpec((None, None, size), lambda i, head, example: (example, head, place(i))),
        pallas.BlockSpec((None, None, 2), lambda i, head, example: (example, i, 0)),
    )


def _call(kernel, settings, grid, inputs, outputs, shapes):
    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), shapes)
    return pallas.pallas_call(
        functools.partial(kernel, settings),
        grid=grid,
        in_specs=inputs,
        out_specs=outputs,
        out_shape=shapes,
        compiler_params=triton.CompilerParams(num_warps=settings.blocks.warps, num_stages=settings.blocks.stages),
        interpret=settings.interpret,
        name=f"attention_{kernel.__name__}",
    )


def _bounds(of_rows, of_columns, rows, columns):
    """The half-open range of column blocks that each block of rows must process: int32 `(batch, blocks of rows, 2)`.

    A block of columns is needed if its range of numbers overlaps that of the rows. The result spans the first to the last needed
    block, so it may include others. Padding gets the greatest number, so that it extends no sequence's range.
    """

    def extremes(numbers, size):
        numbers = jnp.where(numbers <= 0, jnp.iinfo("int32").max, numbers)
        blocks = jnp.reshape(numbers, (numbers.shape[0], -1, size))
        return jnp.min(blocks, axis=-1), jnp.max(blocks, axis=-1)

    (low, high), (low_columns, high_columns) = extremes(of_rows, rows), extremes(of_columns, columns)
    seen = (low[:, :, None] <= high_columns[:, None]) & (low_columns[:, None] <= high[:, :, None])
    first, end = jnp.argmax(seen, axis=-1), seen.shape[-1] - jnp.argmax(seen[..., ::-1], axis=-1)
    return jnp.stack([first, jnp.where(jnp.any(seen, axis=-1), end, first)], axis=-1).astype("int32")
