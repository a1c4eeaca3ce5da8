"""Parts of a sequence: one position, the first of every sequence of a packed row, and the first features of a vector."""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.masks import (
    MaskOutsideGraph,
    at_positions,
    begins_of_sequences,
    has_sequences,
    most_sequences,
    nan_if_left_out,
    slots_of,
    slots_with_sequences,
)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Extract(BertLayer):
    """The vector at one position of every sequence: `outputs[b] = inputs[b, index]`.

    Args:
        index: the position; negative counts from the end of the padded sequence.
        skip_padding: take the first (index 0) or last (index -1) token that is not padding, on whichever side padding is. In a
            sequence of padding only, take the first or last position.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none; read with `skip_padding`.
    """

    left_out: ClassVar[Mapping[str, Any]] = {"skip_padding": False}

    def __init__(self, index: int, skip_padding: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if skip_padding and index not in (0, -1):
            raise ValueError(f"index must be 0 or -1 with skip_padding; got {index}.")
        self.keep(index=index, skip_padding=skip_padding)

    def call(self, inputs, mask=None):
        if not self.skip_padding or mask is None:
            return inputs[:, self.index]
        tokens = ops.cast(mask if self.index == 0 else ops.flip(mask, axis=1), "int32")
        index = ops.cast(ops.argmax(tokens, axis=1), "int32")  # the first of equal values
        if self.index == -1:
            index = ops.shape(inputs)[1] - 1 - index
        return ops.take_along_axis(inputs, index[:, None, None], axis=1)[:, 0]

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ExtractFirsts(MaskOutsideGraph, BertLayer):
    """The vector at the first position of every sequence of a packed row, as `Extract` with index 0 does for a row of one sequence.

    A row with more sequences than `most_sequences(length)` makes all outputs NaN.

    Input shape: `(batch, length, hidden)`, with sequence numbers (see `layers.masks`) as its mask.
    Output shape: `(batch, most_sequences(length), hidden)`, the sequences of a row in order; after the last one, other positions.
    Mask: True at sequences, `(batch, most_sequences(length))`; None while the graph is built (see `Add`).

    Raises:
        ValueError: the mask has no sequence numbers.
    """

    def call(self, inputs, mask=None):
        if not has_sequences(mask):
            raise ValueError(f"{self.name} must have sequence numbers as its mask, as with packed=True; got {mask!r:.60}.")
        firsts = begins_of_sequences(mask)
        positions, there = slots_of(firsts, most_sequences(ops.shape(mask)[1]))
        return at_positions(inputs, positions) + ops.cast(nan_if_left_out(firsts, there), inputs.dtype)

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        return None if mask is None else slots_with_sequences(mask, most_sequences(ops.shape(mask)[1]))

    def compute_output_spec(self, inputs, mask=None):
        batch, length, hidden = inputs.shape
        return keras.KerasTensor((batch, None if length is None else most_sequences(length), hidden), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class FirstFeatures(BertLayer):
    """Truncates vectors to `width` dimensions; vectors trained for it remain useful, with less precision.

    Args:
        width: number of dimensions to keep.

    Input shape: `(..., features)`.
    Output shape: `(..., width)`.
    Mask: passed on.

    Raises:
        ValueError: `width` is below 1 or above the width of the input.

    Reference: Kusupati et al., 2022, section 3 (https://arxiv.org/abs/2205.13147).
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep(width=width)

    def build(self, input_shape):
        if not 1 <= self.width <= input_shape[-1]:
            raise ValueError(f"width must be from 1 to {input_shape[-1]}, the width of the input; got {self.width}.")

    def call(self, inputs):
        return inputs[..., : self.width]

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.width)
