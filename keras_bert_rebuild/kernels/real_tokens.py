"""Functions of single tokens in training steps whose losses do not depend on padding: computed for the other tokens only.

On a processor the feed-forward network of a block is most of a step, and a fifth to two fifths of a batch of texts may be padding.
Attention, norms and dropout keep the layout with padding, which costs them little.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from keras import ops

# A step has at most this many numbers of rows for a shape of its batch, since TensorFlow compiles its activation for each.
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


def of_real_tokens(function: Callable[[Any], Any], x: Any, mask: Any) -> Any:
    """`function(x)` at tokens, and zeros or `function(x)` at padding.

    Args:
        function: a function of `(rows, width)`, of each row by itself, with results of the same shape.
        x: `(batch, length, width)`.
        mask: bool `(batch, length)`, False at padding.
    """
    width, tokens = x.shape[-1], ops.reshape(mask, (-1,))
    rows, places = ops.reshape(x, (-1, width)), ops.shape(tokens)[0]
    unit = ops.maximum(-(-places // SIZES), 1)
    count = ops.minimum(-(-ops.sum(ops.cast(tokens, "int32")) // unit) * unit, places)
    found = ops.concatenate([ops.nonzero(of)[0] for of in (tokens, ops.logical_not(tokens))])[:count]
    found, is_full = ops.cast(found, "int32"), count == places

    def take(rows):
        return ops.take(rows, found, axis=0)

    def put(rows):
        return ops.scatter(found[:, None], rows, (places, width))

    computed = function(ops.cond(is_full, lambda: rows, lambda: _with_gradient(take, put)(rows)))
    return ops.reshape(ops.cond(is_full, lambda: computed, lambda: _with_gradient(put, take)(computed)), ops.shape(x))


def _with_gradient(function, gradient):
    """A linear function whose gradient is another one: backends do not know that each row is taken once."""

    @ops.custom_gradient
    def linear(x):
        # The upstream gradient has a name on torch only.
        return function(x), lambda *given, upstream=None: gradient(given[0] if upstream is None else upstream)

    return linear
