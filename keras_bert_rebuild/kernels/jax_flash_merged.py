"""JAX on GPUs: self-attention whose queries, keys and values are one product, read in place by the kernels of `jax_flash.py`.

Three products of the same input make XLA add three gradients of it, and copy gradients to compute those of two weights together.
Here one product has a third of its columns for each. The kernels read their parts of its output and write the gradients as parts of
one array, so that those of the input and of the weights are one product each.
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas

from keras_bert_rebuild.kernels.jax_dense import add_bias
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

# Where the parts are: keys and values side by side, since one kernel writes the gradients of both.
KEY, VALUE, QUERY = range(3)


def attend_to_inputs(inputs, denses, heads, mask, rate, seed, blocks=None, interpret=False):
    """softmax(Q Kᵀ / √K) V of dense layers of the same inputs: `jax_flash.attention_with_dropout` of their outputs.

    Args:
        inputs: `(batch, length, hidden)`.
        denses: the built `Dense` layers of queries, keys and values, plain products with or without biases.
        heads: the number of heads.
        mask: bool `(batch, length)`, False at padding; or the sequence number of each token, int32 `(batch, length)`.
        rate: the dropout rate, in [0, 1).
        seed: the `keras.random.SeedGenerator` to draw from, or two integers; unused for a rate of 0.
        blocks, interpret: see `jax_flash.attention_with_dropout`.

    Returns:
        `(batch, length, heads, width)`.
    """
    query, key, value = denses
    parts, dtype = (key, value, query), query.compute_dtype
    merged = jnp.matmul(jnp.asarray(inputs, dtype), jnp.concatenate([jnp.asarray(dense.kernel, dtype) for dense in parts], axis=1))
    if query.bias is not None:
        merged = add_bias(merged, jnp.concatenate([jnp.asarray(dense.bias) for dense in parts]))
    batch, length, columns = merged.shape
    merged = jnp.reshape(merged, (batch, length, 3, heads, columns // (3 * heads)))
    words = 2 * (jnp.zeros((batch, heads, length), "uint32"),)
    if rate:
        words = row_words((batch, heads, length, length), seed)[..., 0]
    attend = functools.partial(attend_in_blocks, rate=rate, blocks=blocks or blocks_for(merged), interpret=interpret)
    return over_devices(attend)(merged, *sequence_numbers(mask, batch, length), *words)


def attend_in_blocks(merged, of_queries, of_keys, *words, rate, blocks, interpret):
    """`jax_flash.attend_by_numbers` of the parts of one array `(batch, length, 3, heads, width)`."""
    length, width = merged.shape[1], merged.shape[-1]
    size = min(blocks.queries, block_power(length))
    blocks, more = blocks._replace(queries=size, keys=size), -length % size
    attended = _attend(
        Settings(rate, width**-0.5, blocks, interpret),
        jnp.pad(merged, ((0, 0), (0, more), (0, 0), (0, 0), (0, block_power(width) - width))),
        *filled_up(of_queries, of_keys, words, more, more),
    )
    return attended[:, :length, :, :width]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(settings, merged, of_queries, of_keys, first, second):
    return _forward(settings, merged, of_queries, of_keys, first, second)[0]


# As in `jax_flash.py`, translated once for all blocks.
@functools.partial(jax.jit, static_argnums=0)
def _forward(settings, merged, of_queries, of_keys, first, second):
    batch, length, _, heads, width = merged.shape
    size = settings.blocks.queries
    block, whole = parts_of(size, width), parts_of(length, width, whole=True)
    outputs, log_sums = launched(
        forward_kernel,
        settings,
        (length // size, heads, batch),
        (
            *(_part(QUERY, size, width), _part(KEY, length, width, whole=True), _part(VALUE, length, width, whole=True)),
            *(block.numbers, whole.numbers, block.of_head, block.of_head, block.bounds),
        ),
        (block.tensor, block.of_head),
        (
            jax.ShapeDtypeStruct((batch, length, heads, width), merged.dtype),
            jax.ShapeDtypeStruct((batch, heads, length), "float32"),
        ),
    )(*3 * (merged,), of_queries, of_keys, first, second, block_bounds(of_queries, of_keys, size, size))
    return outputs, (merged, of_queries, of_keys, first, second, outputs, log_sums)


@functools.partial(jax.jit, static_argnums=0)
def _backward(settings, retained, upstream):
    """As in `jax_flash.py`; the second kernel writes into the array of the first."""
    merged, of_queries, of_keys, first, second, outputs, log_sums = retained
    batch, length, _, heads, width = merged.shape
    size = settings.blocks.queries
    means = gradient_means(upstream, outputs, settings.rate)
    arrays = merged, upstream, merged, merged, of_queries, of_keys, first, second, log_sums, means

    def call(kernel, by_keys, output, more=(), aliases=None):
        """Launch it for blocks of keys, with all queries, or the other way round."""
        rows, columns = (length, size) if by_keys else (size, length)
        of_rows, of_columns = parts_of(rows, width, whole=by_keys), parts_of(columns, width, whole=not by_keys)
        inputs = (
            *(_part(QUERY, rows, width, by_keys), of_rows.tensor),
            *(_part(part, columns, width, not by_keys) for part in (KEY, VALUE)),
            *(of_rows.numbers, of_columns.numbers, *4 * (of_rows.of_head,), of_rows.bounds, *more),
        )
        return launched(kernel, settings, (length // size, heads, batch), inputs, output, merged, aliases)

    of_merged = call(query_kernel, False, _part(QUERY, size, width))(*arrays, block_bounds(of_queries, of_keys, size, size))
    # All three parts, of which it writes two: 3 is no multiple of 2, so an interpreter would fill blocks of two up.
    both = pallas.BlockSpec((None, size, 3, None, width), lambda i, head, example: (example, i, 0, head, 0))
    anywhere = (pallas.BlockSpec(memory_space=pallas.ANY),)
    of_merged = call(merged_key_kernel, True, both, anywhere, {len(arrays) + 1: 0})(
        *arrays, block_bounds(of_keys, of_queries, size, size), of_merged
    )
    return of_merged, None, None, None, None


_attend.defvjp(_forward, _backward)


def merged_key_kernel(settings, *references):
    """`key_kernel`, which writes to the first two parts of a block of an array that is also an input."""
    *inputs, _, both = references
    key_kernel(settings, *inputs, _Slot(both, KEY), _Slot(both, VALUE))


class _Slot:
    """A part of a block of gradients, to be written as a whole."""

    def __init__(self, block, part):
        self.block, self.part, self.dtype = block, part, block.dtype

    def __setitem__(self, index, values):
        self.block[:, self.part, :] = values


def _part(part, size, width, whole=False):
    """A block of a part, or all of its length, for one head."""
    shape = (None, size, None, None, width)
    return pallas.BlockSpec(shape, lambda i, head, example: (example, 0 if whole else i, part, head, 0))
