"""Training steps whose losses do not depend on padding: computed for the other tokens only, except for attention itself.

On a processor the dense layers of a block are most of a step, and a fifth to two fifths of a batch of texts may be padding. Blocks
run on `TokenLayout`, rows without padding, from which only attention goes back to the layout of the batch. In models whose blocks
cannot, the feed-forward network alone leaves padding out.
"""

import functools
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert_rebuild.kernels.gradients import with_gradient
from keras_bert_rebuild.kernels.kernel import activates_in_training, kernel
from keras_bert_rebuild.layers.feed_forward import FeedForward
from keras_bert_rebuild.layers.masks import has_sequences
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_bert_rebuild.layers.seam import seam

# A step has at most this many numbers of rows for a shape of its batch, since TensorFlow compiles some kernels for each.
SIZES = 16

# Tokens with fewer numbers cost too little for the time that TensorFlow takes to compile another number of rows.
WIDE = 512


class TokenLayout:
    """Where the tokens of a batch are, and the layout without most of its padding: `(1, tokens, width)`.

    Args:
        mask: bool `(batch, length)`, False at padding.
    """

    def __init__(self, mask: Any) -> None:
        self.mask = mask
        is_token = ops.reshape(mask, (-1,))
        positions = ops.shape(is_token)[0]
        unit = ops.maximum(-(-positions // SIZES), 1)
        units = ops.maximum(-(-ops.sum(ops.cast(is_token, "int32")) // unit), 1)
        count = ops.minimum(units * unit, positions)
        self._is_full = count == positions
        # Tokens first, then padding, each in its order.
        order = ops.argsort(ops.where(is_token, 0, positions) + ops.arange(positions))
        rank = ops.argsort(order)
        self._positions = order[:count]  # of each row
        self._rows = ops.minimum(rank, count - 1)  # of each position
        self._has_row = (rank < count)[:, None]

    def rows(self, x: Any) -> Any:
        """The tokens, `(1, tokens, width)`, of `(batch, length, width)`; after them some padding, to have few numbers of rows."""
        width = x.shape[-1]
        return ops.reshape(self._unless_full(_take, ops.reshape(x, (-1, width))), (1, -1, width))

    def padded(self, rows: Any) -> Any:
        """`(batch, length, width)`, the inverse of `rows`; at padding any of the rows, which nothing may read."""
        width, shape = rows.shape[-1], ops.shape(self.mask)
        return ops.reshape(self._unless_full(_put, ops.reshape(rows, (-1, width))), (*shape, width))

    @functools.cached_property
    def rules(self) -> tuple[tuple[Callable[..., Any], Callable[..., Any]], ...]:
        """With these rules layers compute rows: only attention between tokens goes back to the layout of the batch."""
        return (
            (MultiHeadSelfAttention.project, self._project),
            (MultiHeadSelfAttention.attend, self._attend),
            (MultiHeadSelfAttention.merge, self._merge),
        )

    def _project(self, plain, layer, rows, mask=None, positions=None):
        columns = ops.cast(self._positions % ops.shape(self.mask)[1], "int32")[None] if layer.rotary_theta is not None else None
        return tuple(self._by_heads(self.padded, heads) for heads in plain(layer, rows, None, columns))

    def _attend(self, plain, layer, query, key, value, mask=None, training=None, *shared):
        return plain(layer, query, key, value, self.mask, training, *shared)

    def _merge(self, plain, layer, heads):
        return plain(layer, self._by_heads(self.rows, heads))

    def _by_heads(self, move, heads):
        """Move `(batch, length, heads, head width)` from one layout to the other."""
        count, width = heads.shape[-2:]
        moved = move(ops.reshape(heads, (*ops.shape(heads)[:2], count * width)))
        return ops.reshape(moved, (*ops.shape(moved)[:2], count, width))

    def _unless_full(self, function, rows):
        layout = self._positions, self._rows, self._has_row
        return ops.cond(self._is_full, lambda: rows, lambda: with_gradient(function, (rows,), layout))


# Rows are gathered in both directions: backends take several times as long to scatter them.
def _take(x, positions, rows, has_row):
    zeros_elsewhere = lambda upstream: ops.where(has_row, ops.take(upstream, rows, axis=0), ops.cast(0, upstream.dtype))  # noqa: E731
    return ops.take(x, positions, axis=0), zeros_elsewhere


def _put(x, positions, rows, has_row):
    return ops.take(x, rows, axis=0), lambda upstream: ops.take(upstream, positions, axis=0)


@seam
def tokens_alone(width: int, mask: Any) -> TokenLayout | None:
    """Where the tokens of a batch are, for a step that reads nothing at padding; None if it computes padding, too.

    Args:
        width: how many numbers a token has.
        mask: `(batch, length)`, or None; see `MultiHeadSelfAttention`.
    """
    return None


def _skips_padding(width, mask):
    """Rows with padding, not sequences, of wide tokens."""
    return mask is not None and len(mask.shape) == 2 and not has_sequences(mask) and width >= WIDE


@kernel(tokens_alone, "tensorflow", "torch", when=_skips_padding)
def leave_out_padding(rest, width, mask):
    """A step need not compute padding, a fifth to two fifths of a batch of texts.

    Measured: Without padding
    """
    return TokenLayout(mask)


def feed_forward_of_tokens(
    plain: Callable[..., Any], layer: FeedForward, inputs: Any, training: Any = None, mask: Any = None
) -> Any:
    """A rule for `FeedForward.call` in a step that reads nothing at padding: compute the tokens alone.

    Only with our own activations: any other may have variables, or read other tokens.
    """
    takes = activates_in_training(layer, inputs, training) and layer.dropout_rate == 0
    tokens = tokens_alone(inputs.shape[-1], mask) if takes else None
    return plain(layer, inputs, training, mask) if tokens is None else tokens.padded(plain(layer, tokens.rows(inputs), training))
