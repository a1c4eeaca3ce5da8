"""Rows with several sequences: how a mask distinguishes them.

Such a mask has sequence numbers, int32 `(batch, length)`: for each token the column, from 1, in which its sequence begins, and 0 at
padding. A row `A A A B B _` has 1 1 1 4 4 0. A mask of zeros and ones is that of rows with one sequence each.
"""

from typing import Any

import keras
from keras import ops


def has_sequences(mask: Any) -> bool:
    """Whether a mask has sequence numbers; a boolean one only marks padding."""
    return mask is not None and len(mask.shape) == 2 and "int" in keras.backend.standardize_dtype(mask.dtype)


def visible_pairs(mask: Any, causal: bool = False) -> Any:
    """True where a query may attend to a key, the same in all heads: a bool tensor that broadcasts to `(batch, 1, length, length)`.

    Args:
        mask: `(batch, length)`, bool or sequence numbers; or `(batch, 1, length, length)`, which is returned. With sequence numbers
            a token attends to its own sequence, and padding to padding, so that every softmax has a key.
        causal: a query attends only to keys up to its own position.
    """
    if len(mask.shape) == 4:
        pairs = mask
    elif has_sequences(mask):
        pairs = ops.equal(mask[:, None, :, None], mask[:, None, None, :])
    else:
        pairs = mask[:, None, None, :]  # (B, S) → (B, 1, 1, S)
    if not causal:
        return pairs
    positions = ops.arange(ops.shape(mask)[-1], dtype="int32")
    return ops.logical_and(pairs, positions[:, None] >= positions[None, :])


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
