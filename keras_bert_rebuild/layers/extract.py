"""One position of a sequence."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Extract(keras.layers.Layer):
    """The vector at one position of every sequence: `outputs[b] = inputs[b, index]`.

    Args:
        index: the position; negative counts from the end of the padded sequence.
        skip_padding: whether it is the first token that is not padding instead, which follows padding on the left; index must be 0.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none.
    """

    def __init__(self, index: int, skip_padding: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if skip_padding and index != 0:
            raise ValueError(f"index must be 0 with skip_padding; got {index}.")
        self.index = index
        self.skip_padding = skip_padding
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if not self.skip_padding or mask is None:
            return inputs[:, self.index]
        first = ops.argmax(ops.cast(mask, "int32"), axis=1)
        chosen = ops.arange(ops.shape(inputs)[1])[None, :] == ops.cast(first, "int32")[:, None]
        return ops.sum(ops.where(chosen[:, :, None], inputs, ops.zeros_like(inputs)), axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])

    def get_config(self):
        return {**super().get_config(), "index": self.index, **({"skip_padding": True} if self.skip_padding else {})}
