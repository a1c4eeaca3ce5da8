"""The last token of a text."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LastToken(keras.layers.Layer):
    """The vector of the last token of every sequence that is not padding, wherever its padding is.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: read and consumed, the output has none. Without one, or with padding alone, the last position is taken.

    Reference: Yang et al., 2019, appendix A.5 (https://arxiv.org/abs/1906.08237).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is None:
            return inputs[:, -1]
        length = ops.shape(inputs)[1]
        behind = ops.argmax(ops.cast(ops.flip(mask, axis=1), "int32"), axis=1)  # padding after the last token
        index = ops.cast(length - 1, "int32") - ops.cast(behind, "int32")
        return ops.take_along_axis(inputs, index[:, None, None], axis=1)[:, 0]

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])
