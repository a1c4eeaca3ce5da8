"""Training steps whose losses do not depend on padding: computed for the other tokens only, except for attention itself.

On a processor the dense layers of a block are most of a step, and a fifth to two fifths of a batch of texts may be padding. Blocks
run on `RealTokens`, rows without padding, from which only attention goes back to the layout of the batch. `of_real_tokens` is for
models whose blocks cannot: there the feed-forward network alone leaves padding out.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from keras import ops

from keras_bert_rebuild.kernels.gradients import with_gradient

# A step has at most this many numbers of rows for a shape of its batch, since TensorFlow compiles some kernels for each.
SIZES = 16

# A step that is being traced or run by this thread.
_THREAD = threading.local()


@contextlib.contextmanager
def padding_is_unread() -> Iterator[None]:
    """A context in which nothing may depend on what layers return at padding."""
    outer, _THREAD.unread = is_padding_unread(), True
    try:
        yield
    finally:
        _THREAD.unread = outer


def is_padding_unread() -> bool:
    """Whether this thread is in such a context."""
    return getattr(_THREAD, "unread", False)


class RealTokens:
    """Where the tokens of a batch are, and the layout without most of its padding: `(1, tokens, width)`.

    Args:
        mask: bool `(batch, length)`, False at padding.
    """

    def __init__(self, mask: Any) -> None:
        self.mask = mask
        is_token = ops.reshape(mask, (-1,))
        places = ops.shape(is_token)[0]
        unit = ops.maximum(-(-places // SIZES), 1)
        units = ops.maximum(-(-ops.sum(ops.cast(is_token, "int32")) // unit), 1)
        count = ops.minimum(units * unit, places)
        self._is_full = count == places
        # Tokens first, then padding, each in its order.
        order = ops.argsort(ops.where(is_token, 0, places) + ops.arange(places))
        rank = ops.argsort(order)
        self._places = order[:count]  # of each row
        self._rows = ops.minimum(rank, count - 1)  # of each place
        self._has_row = (rank < count)[:, None]

    def rows(self, x: Any) -> Any:
        """The tokens, `(1, tokens, width)`, of `(batch, length, width)`; after them some padding, to have few numbers of rows."""
        width = x.shape[-1]
        return ops.reshape(self._unless_full(_take, ops.reshape(x, (-1, width))), (1, -1, width))

    def padded(self, rows: Any) -> Any:
        """`(batch, length, width)`, the inverse of `rows`; at padding any of the rows, which nothing may read."""
        width, shape = rows.shape[-1], ops.shape(self.mask)
        return ops.reshape(self._unless_full(_put, ops.reshape(rows, (-1, width))), (*shape, width))

    def _unless_full(self, function, rows):
        layout = self._places, self._rows, self._has_row
        return ops.cond(self._is_full, lambda: rows, lambda: with_gradient(function, (rows,), layout))


# Rows are gathered in both directions: backends take several times as long to scatter them.
def _take(x, places, rows, has_row):
    zeros_elsewhere = lambda upstream: ops.where(has_row, ops.take(upstream, rows, axis=0), ops.cast(0, upstream.dtype))  # noqa: E731
    return ops.take(x, places, axis=0), zeros_elsewhere


def _put(x, places, rows, has_row):
    return ops.take(x, rows, axis=0), lambda upstream: ops.take(upstream, places, axis=0)


def of_real_tokens(function: Callable[[Any], Any], x: Any, mask: Any) -> Any:
    """`function(x)` at tokens; at padding that of padding or of another token.

    Args:
        function: a function of `(1, rows, width)`, of each row by itself, with results of the same shape.
        x: `(batch, length, width)`.
        mask: bool `(batch, length)`, False at padding.
    """
    tokens = RealTokens(mask)
    return tokens.padded(function(tokens.rows(x)))


@contextlib.contextmanager
def of_tokens_alone(mask: Any) -> Iterator[RealTokens]:
    """A context in which layers compute rows of `RealTokens`, which it returns.

    Args:
        mask: bool `(batch, length)`, False at padding.
    """
    outer, _THREAD.tokens = _running(), RealTokens(mask)
    try:
        yield _THREAD.tokens
    finally:
        _THREAD.tokens = outer


def with_padding(x: Any) -> Any:
    """What a layer computed, in the layout of the batch: of tokens alone `RealTokens.padded`, else unchanged."""
    tokens = _running()
    return x if tokens is None else tokens.padded(x)


def without_padding(x: Any) -> Any:
    """The inverse of `with_padding`."""
    tokens = _running()
    return x if tokens is None else tokens.rows(x)


def padding_mask(mask: Any) -> Any:
    """The mask of the batch if layers compute tokens alone, else that which a layer was given."""
    tokens = _running()
    return mask if tokens is None else tokens.mask


def _running():
    """The `RealTokens` that layers compute in this thread; None if they compute padding, too."""
    return getattr(_THREAD, "tokens", None)
