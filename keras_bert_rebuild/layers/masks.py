"""What a mask says: padding, or several sequences in a row; masks that stay outside the graph; and the positions that one chooses.

A mask of packed rows has sequence numbers, int32 `(batch, length)`: for each token the column, from 1, in which its sequence
begins, and 0 at padding. A row `A A A B B _` has 1 1 1 4 4 0. A mask of zeros and ones is that of rows with one sequence each.
"""

from typing import Any

import keras
from keras import ops


class MaskOutsideGraph:
    """A layer whose mask is None while the graph is built, so that its operations add no rows to the summary.

    When a functional model runs, it calls every layer again with real tensors, and `mask_of` gives their masks.
    """

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the outputs for real tensors, else None."""
        symbolic = any(isinstance(x, keras.KerasTensor) for x in keras.tree.flatten(inputs))
        return None if symbolic else self.mask_of(inputs, mask)

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        """The mask of the outputs, from real inputs and their masks."""
        raise NotImplementedError(f"{type(self).__name__} must have a method mask_of.")


def has_sequences(mask: Any) -> bool:
    """Whether a mask has sequence numbers; a boolean one only marks padding."""
    return mask is not None and len(mask.shape) == 2 and "int" in keras.backend.standardize_dtype(mask.dtype)


def visible_pairs(mask: Any) -> Any:
    """True where a query may attend to a key, the same in all heads: a bool tensor that broadcasts to `(batch, 1, length, length)`.

    Args:
        mask: `(batch, length)`, bool or sequence numbers; or `(batch, 1, length, length)`, which is returned. With sequence numbers
            a token attends to its own sequence, and padding to padding, so that every softmax has a key.
    """
    if len(mask.shape) == 4:
        return mask
    if has_sequences(mask):
        return ops.equal(mask[:, None, :, None], mask[:, None, None, :])
    return mask[:, None, None, :]  # (B, S) → (B, 1, 1, S)


def near_pairs(length: Any, window: int | None, causal: bool) -> Any:
    """Which keys a query may attend to by their distance, bool `(length, length)`; None for all.

    Args:
        length: number of tokens, a number or a tensor.
        window: how many tokens on either side a query attends to; None for all.
        causal: whether it attends to those after it.
    """
    if window is None and not causal:
        return None
    positions = ops.arange(length, dtype="int32")
    ahead = positions[None, :] - positions[:, None]  # (L, S)
    visible = ahead <= 0 if causal else None
    if window is None:
        return visible
    within = ops.abs(ahead) <= window
    return within if visible is None else ops.logical_and(visible, within)


def positions_in_sequences(mask: Any) -> Any:
    """The position of every token in its sequence, from 0; 0 at padding: int32 `(batch, length)`.

    Args:
        mask: sequence numbers, `(batch, length)`.
    """
    columns = ops.arange(ops.shape(mask)[1], dtype="int32")
    return ops.where(mask > 0, columns - ops.cast(mask, "int32") + 1, 0)


def begins_of_sequences(mask: Any) -> Any:
    """True at the first token of every sequence, bool `(batch, length)`.

    Args:
        mask: sequence numbers, `(batch, length)`.
    """
    return ops.equal(mask, ops.cast(ops.arange(ops.shape(mask)[1], dtype="int32") + 1, mask.dtype))


def most_sequences(length: Any) -> Any:
    """The maximum number of sequences of a packed row: one per 8 tokens, of which 3 are special tokens of a pair.

    Args:
        length: length of the row, a number or a tensor.
    """
    return (length + 7) // 8


def slots_with_sequences(mask: Any, slots: int) -> Any:
    """True at the slots of a row that have a sequence, if every sequence in order has one: bool `(batch, slots)`.

    Args:
        mask: sequence numbers, `(batch, length)`.
        slots: number of slots.
    """
    count = ops.sum(ops.cast(begins_of_sequences(mask), "int32"), axis=1, keepdims=True)
    return ops.arange(slots, dtype="int32") < count


def both_masks(mask: Any, other: Any) -> Any:
    """The conjunction of two masks of the same rows, with sequence numbers if one of them has them."""
    if mask is other and has_sequences(mask):
        return mask  # all blocks share it, unlike a new boolean mask, with which TensorFlow on CPUs is a tenth slower
    if not has_sequences(mask):
        mask, other = other, mask
    if not has_sequences(mask):
        return ops.logical_and(mask, other)
    return ops.where(ops.not_equal(other, 0), mask, 0)


def slots_of(labelled: Any, most: int | None) -> tuple[Any, Any]:
    """The positions at which something is computed: in every example the chosen ones in order, then others.

    Args:
        labelled: `(batch, length)`, true at chosen positions, such as those with a label.
        most: maximum number of positions per example; None for all.

    Returns:
        The positions and which of them are chosen, `(batch, slots)`; for all positions None and `chosen`.
    """
    if most is None:
        return None, labelled
    length = labelled.shape[1]
    if length is None:  # a TensorFlow graph of any length
        length = ops.shape(labelled)[1]
        slots = ops.minimum(most, length)
    else:
        slots = min(most, length)
    order = ops.cast(length - ops.arange(length), "int32")  # of equal values, `top_k` takes the first ones
    keys, positions = ops.top_k(ops.cast(labelled, "int32") * (length + 1) + order, slots)
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


def nan_if_left_out(labelled: Any, in_slots: Any) -> Any:
    """NaN if there are chosen positions without a slot, else 0; added to outputs so that such positions are not silently ignored.

    Args:
        labelled: `(batch, length)`, true at chosen positions.
        in_slots: `(batch, slots)`, true at slots of chosen positions.
    """
    left_out = ops.sum(ops.cast(labelled, "int32")) > ops.sum(ops.cast(in_slots, "int32"))
    return ops.where(left_out, float("nan"), 0.0)
