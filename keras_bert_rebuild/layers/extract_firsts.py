"""The first position of every sequence of packed rows."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.anatomy.packed import most_sequences
from keras_bert_rebuild.kernels.slots import at_positions, nan_if_left_out, slots_of


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ExtractFirsts(keras.layers.Layer):
    """The vector at the first position of every sequence of a packed row, as `Extract` with index 0 does for a row of one sequence.

    A row with more sequences than `most_sequences(length)` makes all outputs NaN.

    Input shape: `(batch, length, hidden)`, with sequence numbers (see `kernels.sequences`) as its mask.
    Output shape: `(batch, most_sequences(length), hidden)`, the sequences of a row in order; after the last one, other positions.
    Mask: True at sequences, `(batch, most_sequences(length))`; None while the graph is built (see `Add`).

    Raises:
        ValueError: the mask has no sequence numbers.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if not kernels.has_sequences(mask):
            raise ValueError(f"{self.name} must have sequence numbers as its mask, as with packed=True; got {mask!r:.60}.")
        firsts = kernels.begins_of_sequences(mask)
        positions, there = slots_of(firsts, most_sequences(ops.shape(mask)[1]))
        return at_positions(inputs, positions) + ops.cast(nan_if_left_out(firsts, there), inputs.dtype)

    def compute_mask(self, inputs, mask=None):
        if mask is None or isinstance(inputs, keras.KerasTensor):
            return None
        return kernels.slots_with_sequences(mask, most_sequences(ops.shape(mask)[1]))

    def compute_output_spec(self, inputs, mask=None):
        batch, length, hidden = inputs.shape
        return keras.KerasTensor((batch, None if length is None else most_sequences(length), hidden), dtype=self.compute_dtype)
