"""One position of a sequence."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Extract(keras.layers.Layer):
    """The vector at one position of every sequence: `outputs[b] = inputs[b, index]`.

    Args:
        index: the position; negative counts from the end of the padded sequence.
        skip_padding: take the first (index 0) or last (index -1) token that is not padding, on whichever side padding is. In a
            sequence of padding only, take the first or last position.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none; read with `skip_padding`.
    """

    def __init__(self, index: int, skip_padding: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if skip_padding and index not in (0, -1):
            raise ValueError(f"index must be 0 or -1 with skip_padding; got {index}.")
        self.index = index
        self.skip_padding = skip_padding
        self.supports_masking = True

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

    def get_config(self):
        return {**super().get_config(), "index": self.index, **({"skip_padding": True} if self.skip_padding else {})}
