"""JAX on GPUs: how the Pallas kernels of attention divide arrays into blocks, and how they are launched."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from keras_bert_rebuild.kernels.jax_flash_kernels import Blocks
from keras_bert_rebuild.kernels.row_hash import gain_of
from keras_bert_rebuild.layers.masks import has_sequences

# The smallest side of a matrix that the tensor cores multiply.
LEAST = 16


def blocks_for(query):
    """The block sizes for queries of this width and dtype; larger blocks would spill registers to memory."""
    size = 64 if query.shape[-1] * query.dtype.itemsize <= 128 else 32
    return Blocks(size, size)


def block_power(size):
    """The smallest power of two that is at least `size` and `LEAST`."""
    return max(LEAST, pallas.next_power_of_2(size))


def sequence_numbers(mask, batch, length):
    """A number for each query and each key, int32; a query attends to the keys with the same number."""
    mask = jnp.broadcast_to(jnp.asarray(mask), (batch, mask.shape[1]))
    if has_sequences(mask):
        return mask, mask
    mask = jnp.where(jnp.any(mask, axis=1, keepdims=True), mask, True)
    return jnp.ones((batch, length), "int32"), mask.astype("int32")


def filled_up(of_queries, of_keys, words, more_queries, more_keys):
    """The numbers, and the words of the rows of random bits, of tokens that fill up the last blocks.

    Padded queries attend to the keys of the last query; no query attends to padded keys.
    """
    of_queries = jnp.pad(of_queries, ((0, 0), (0, more_queries)), mode="edge")
    of_keys = jnp.pad(of_keys, ((0, 0), (0, more_keys)), constant_values=-1)
    return of_queries, of_keys, *(jnp.pad(word, ((0, 0), (0, 0), (0, more_queries))) for word in words)


def gradient_means(upstream, outputs, rate):
    """Σ over keys of probabilities × their gradients, which is Σ over the width of outputs × their gradients.

    Float32 `(batch, heads, queries)`, divided by the gain of dropout, by which the kernels multiply at their end.
    """
    means = jnp.sum(upstream.astype("float32") * outputs.astype("float32"), axis=-1) / gain_of(rate)
    return jnp.swapaxes(means, 1, 2)


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


def parts_of(size, width, whole=False):
    """The parts for blocks of `size` tokens; `whole` for the whole length, of which `size` is the number."""

    def block_index(index):
        return 0 if whole else index

    return Parts(
        pallas.BlockSpec((None, size, None, width), lambda i, head, example: (example, block_index(i), head, 0)),
        pallas.BlockSpec((None, size), lambda i, head, example: (example, block_index(i))),
        pallas.BlockSpec((None, None, size), lambda i, head, example: (example, head, block_index(i))),
        pallas.BlockSpec((None, None, 2), lambda i, head, example: (example, i, 0)),
    )


def launched(kernel, settings, grid, inputs, outputs, shapes, aliases=None):
    """A function of arrays that runs a kernel of `jax_flash_kernels.py` for every block of a grid.

    Args:
        kernel: a function of `settings` and references to the parts of arrays.
        settings: its constants.
        grid: numbers of blocks, heads and examples.
        inputs, outputs: for each array the part of a block.
        shapes: arrays, or their shapes and dtypes, like the outputs.
        aliases: for inputs in whose memory an output is written, the index of the input and of the output.
    """
    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), shapes)
    return pallas.pallas_call(
        functools.partial(kernel, settings),
        grid=grid,
        in_specs=inputs,
        out_specs=outputs,
        out_shape=shapes,
        compiler_params=triton.CompilerParams(num_warps=settings.blocks.warps, num_stages=settings.blocks.stages),
        input_output_aliases=aliases or {},
        interpret=settings.interpret,
        name=f"attention_{kernel.__name__}",
    )


def block_bounds(of_rows, of_columns, rows, columns):
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
