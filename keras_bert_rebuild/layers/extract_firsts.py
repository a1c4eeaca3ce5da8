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
        firsts, positions, there = self._slots(mask)
        return at_positions(inputs, positions) + ops.cast(nan_if_left_out(firsts, there), inputs.dtype)

    def compute_mask(self, inputs, mask=None):
        return None if isinstance(inputs, keras.KerasTensor) else self._slots(mask)[-1]

    def compute_output_spec(self, inputs, mask=None):
        batch, length, hidden = inputs.shape
        return keras.KerasTensor((batch, None if length is None else most_sequences(length), hidden), dtype=self.compute_dtype)

    def _slots(self, numbers):
        """Where sequences begin `(batch, length)`, their columns, and which of these are one, both `(batch, slots)`."""
        if not kernels.has_sequences(numbers):
            raise ValueError(
                f"{self.name} must have sequence numbers as its mask, as in a model with packed=True; got {numbers!r:.60}."
            )
        firsts = kernels.begins_of_sequences(numbers)
        return firsts, *slots_of(firsts, most_sequences(ops.shape(numbers)[1]))
