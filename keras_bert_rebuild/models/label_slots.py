"""The positions that a head with few slots an example is computed at."""

from typing import Any

from keras import ops


def labelled_first(labelled: Any, slots: int) -> tuple[Any, Any]:
    """The positions of the labels of every example, in order, and behind them others, so that all examples have as many.

    Args:
        labelled: true where a label is, `(batch, length)`.
        slots: how many positions; no more than there are.

    Returns:
        The positions and which of them have a label, `(batch, slots)`.
    """
    length = labelled.shape[1]
    if length is None:  # a TensorFlow graph of any length
        length = ops.shape(labelled)[1]
        slots = ops.minimum(slots, length)
    else:
        slots = min(slots, length)
    order = ops.cast(length - ops.arange(length), "int32")  # `top_k` prefers the front of the sequence
    keys, positions = ops.top_k(ops.cast(labelled, "int32") * (length + 1) + order, slots)
    return positions, keys > length
