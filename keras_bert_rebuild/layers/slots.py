"""A fixed number of chosen positions of every row, as functions of arrays."""

from typing import Any

from keras import ops


def slots_of(chosen: Any, most: int | None) -> tuple[Any, Any]:
    """The positions at which something is computed: in every example the chosen ones in order, then others.

    Args:
        chosen: `(batch, length)`, true at chosen positions, such as those with a label.
        most: maximum number of positions per example; None for all.

    Returns:
        The positions and which of them are chosen, `(batch, slots)`; for all positions None and `chosen`.
    """
    if most is None:
        return None, chosen
    length = chosen.shape[1]
    if length is None:  # a TensorFlow graph of any length
        length = ops.shape(chosen)[1]
        slots = ops.minimum(most, length)
    else:
        slots = min(most, length)
    order = ops.cast(length - ops.arange(length), "int32")  # of equal values, `top_k` takes the first ones
    keys, positions = ops.top_k(ops.cast(chosen, "int32") * (length + 1) + order, slots)
    return positions, keys > length


def at_positions(values: Any, positions: Any) -> Any:
    """The values at some positions of every example, or at all positions.

    Args:
        values: `(batch, length)` or `(batch, length, width)`.
        positions: `(batch, slots)`, or None for all.

    Returns:
        `(batch, slots)` or `(batch, slots, width)`.
    """
    if positions is None:
        return values
    return ops.take_along_axis(values, positions if len(values.shape) == 2 else positions[..., None], axis=1)


def nan_if_left_out(chosen: Any, in_slots: Any) -> Any:
    """NaN if there are chosen positions without a slot, else 0; added to outputs so that such positions are not silently ignored.

    Args:
        chosen: `(batch, length)`, true at chosen positions.
        in_slots: `(batch, slots)`, true at slots of chosen positions.
    """
    left_out = ops.sum(ops.cast(chosen, "int32")) > ops.sum(ops.cast(in_slots, "int32"))
    return ops.where(left_out, float("nan"), 0.0)
