"""Windowed attention in bands, with memory and operations proportional to length × window."""

from typing import Any, NamedTuple

from keras import ops

from keras_bert_rebuild.kernels.operations import attention_of_pairs
from keras_bert_rebuild.kernels.sequences import has_sequences


class Blocks(NamedTuple):
    """How a text is divided into blocks."""

    maximum: int
    """Size of a block, unless the whole text is shorter."""

    size: Any
    """Number of tokens in a block; the last block is padded."""

    count: Any
    """Blocks."""


def attend_in_bands(
    query: Any, key: Any, value: Any, mask: Any, window: int, causal: bool = False, dropout: float = 0.0, seeds: Any = None
) -> Any:
    """`windowed_attention` by blocks of queries, each with the keys of its own block and of both adjacent blocks.

        queries of block i        keys of blocks i − 1, i, i + 1        blocks of `window` tokens, the last one padded

    `attention` sees each block as an example, so fused kernels and dropout work as without a window. On average three times as many
    keys are compared as a query may attend to; the mask hides the others.

    Args and returns: see `windowed_attention`.

    Reference: Beltagy et al., 2020, section 3.1, "sliding chunks" (https://arxiv.org/abs/2004.05150).
    """
    batch, length, heads, width = ops.shape(query)
    # A graph for any length also runs short texts, as a single block of their length.
    size = max(window, 1) if isinstance(length, int) else ops.minimum(max(window, 1), length)
    count = (length + size - 1) // size
    cut = Blocks(max(window, 1), size, count)
    queries = ops.reshape(_rows(query, cut), (batch * count, size, heads, width))
    keys, values = (ops.reshape(_bands(x, cut), (batch * count, 3 * size, heads, width)) for x in (key, value))
    ahead = ops.arange(3 * size)[None, :] - size - ops.arange(size)[:, None]  # key − query
    visible = ops.abs(ahead) <= window
    if causal:
        visible = ops.logical_and(visible, ahead <= 0)
    if len(mask.shape) == 4 and mask.shape[2] == 1:
        mask = mask[:, 0, 0]
    if has_sequences(mask):
        own, others = (
            ops.reshape(_rows(mask, cut), (batch * count, 1, size, 1)),
            ops.reshape(_bands(mask, cut), (batch * count, 1, 1, 3 * size)),
        )
        seen = ops.logical_and(own == others, others > 0)
    elif len(mask.shape) == 2:
        seen = ops.reshape(_bands(ops.cast(mask, "int8"), cut), (batch * count, 1, 1, 3 * size))
    else:
        seen = ops.reshape(_bands_of_pairs(ops.cast(mask[:, 0], "int8"), cut), (batch * count, 1, size, 3 * size))
    attended = attention_of_pairs(queries, keys, values, ops.logical_and(ops.cast(seen, "bool"), visible), dropout, seeds)
    return ops.reshape(attended, (batch, count * size, heads, width))[:, :length]


def _padded(x, before, after):
    """Pad the tokens of `(batch, length, ...)` with zeros before and after."""
    return ops.pad(x, [(0, 0), (before, after), *((0, 0) for _ in x.shape[2:])])


def _rows(x, cut):
    """Pad `(batch, length, ...)` with zeros to whole blocks."""
    return _padded(x, 0, cut.maximum - 1)[:, : cut.count * cut.size]


def _bands(x, cut):
    """Every block of `(batch, length, ...)` with both neighbours: `(batch, count, 3 · size, ...)`; zeros outside."""
    first = cut.maximum - cut.size
    x = _padded(x, cut.maximum, 2 * cut.maximum - 1)[:, first : first + (cut.count + 2) * cut.size]
    batch, _, *features = ops.shape(x)
    blocks = ops.reshape(x, (batch, cut.count + 2, cut.size, *features))
    return ops.concatenate([blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:]], axis=2)


def _bands_of_pairs(mask, cut):
    """The columns of each query's band of a mask `(batch, queries, keys)`: `(batch, count · size, 3 · size)`."""
    batch, length, _ = ops.shape(mask)
    rows = cut.count * cut.size
    columns = ops.arange(rows)[:, None] // cut.size * cut.size + ops.arange(3 * cut.size)[None, :] - cut.size
    inside = ops.logical_and(columns >= 0, columns < length)
    columns = ops.broadcast_to(ops.clip(columns, 0, length - 1), (batch, rows, 3 * cut.size))
    return ops.take_along_axis(_rows(mask, cut), columns, axis=2) * ops.cast(inside, "int8")
