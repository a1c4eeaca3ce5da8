"""One position of a sequence."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Extract(keras.layers.Layer):
    """The vector at one position of every sequence: `outputs[b] = inputs[b, index]`.

    Args:
        index: the position; negative counts from the end of the padded sequence.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none.
    """

    def __init__(self, index: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.index = index
        self.supports_masking = True

    def call(self, inputs):
        return inputs[:, self.index]

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])

    def get_config(self):
        return {**super().get_config(), "index": self.index}
