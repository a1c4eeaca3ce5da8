"""Attention within a window, in bands."""

from typing import Any, NamedTuple

from keras import ops

from keras_bert_rebuild.kernels.kernel import BACKENDS, kernel
from keras_bert_rebuild.layers.masks import has_sequences
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention

# Texts of at most this many windows are compared as a whole.
WINDOWS = 8


class Blocks(NamedTuple):
    """How a text is divided into blocks."""

    maximum: int
    """Size of a block, unless the whole text is shorter."""

    size: Any
    """Number of tokens in a block; the last block is padded."""

    count: Any
    """Blocks."""


def attends_within_window(layer, query, key, value, mask=None, training=None, *shared):
    """Attention within a window and with a mask, with no terms besides queries · keys."""
    return layer.window is not None and mask is not None and not shared


def is_in_bands(length, window):
    """Whether bands compare fewer pairs than full attention: in texts of more than `WINDOWS` windows, or of any length."""
    return length is None or length > WINDOWS * window


@kernel(MultiHeadSelfAttention.attend, *BACKENDS, when=attends_within_window)
def attend_in_bands(rest, layer, query, key, value, mask, training=None):
    """Windowed attention that compares a query with the keys of three windows, not with all: memory grows with length × window.

        queries of block i        keys of blocks i − 1, i, i + 1        blocks of `window` tokens, the last one padded

    `rest` sees each block as an example, so fused kernels and dropout work as without a window; so they do for short texts and
    masks of pairs, which are compared as a whole. A query without visible keys gives zeros, for which backends differ.

    Measured: Attention within a window

    Reference: Beltagy et al., 2020, section 3.1, "sliding chunks" (https://arxiv.org/abs/2004.05150).
    """
    if len(mask.shape) == 4 or not is_in_bands(query.shape[1], layer.window):
        return _attend_pairs(rest, layer, query, key, value, layer.visible(mask, query), training)
    batch, length, heads, width = ops.shape(query)
    # A graph for any length also runs short texts, as a single block of their length.
    most = max(layer.window, 1)
    size = most if isinstance(length, int) else ops.minimum(most, length)
    cut = Blocks(most, size, (length + size - 1) // size)
    queries = ops.reshape(_rows(query, cut), (batch * cut.count, size, heads, width))
    keys, values = (ops.reshape(_bands(x, cut), (batch * cut.count, 3 * size, heads, width)) for x in (key, value))
    ahead = ops.arange(3 * size)[None, :] - size - ops.arange(size)[:, None]  # key − query
    near = ops.abs(ahead) <= layer.window
    if layer.history_only:
        near = ops.logical_and(near, ahead <= 0)
    pairs = ops.logical_and(_seen(mask, cut, batch), near)
    attended = _attend_pairs(rest, layer, queries, keys, values, pairs, training)
    return ops.reshape(attended, (batch, cut.count * size, heads, width))[:, :length]


def _attend_pairs(rest, layer, query, key, value, pairs, training):
    """Attention by a mask of pairs that gives zeros for queries without visible keys."""
    attended = rest(layer, query, key, value, pairs, training)
    return ops.where(ops.any(pairs, axis=-1)[:, 0, :, None, None], attended, ops.zeros_like(attended))


def _seen(mask, cut, batch):
    """Which keys of its band a query may attend to by the mask, bool `(batch · blocks, 1, size or 1, 3 · size)`."""
    shape = batch * cut.count, 1
    if has_sequences(mask):
        own, in_bands = (
            ops.reshape(_rows(mask, cut), (*shape, cut.size, 1)),
            ops.reshape(_bands(mask, cut), (*shape, 1, 3 * cut.size)),
        )
        return ops.logical_and(own == in_bands, in_bands > 0)
    return ops.cast(ops.reshape(_bands(ops.cast(mask, "int8"), cut), (*shape, 1, 3 * cut.size)), "bool")


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
