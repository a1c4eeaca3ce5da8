"""Pooling over the positions that are not padding."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MaskedGlobalMaxPool1D(keras.layers.Layer):
    """The largest value of every feature over the positions that are not padding.

    Computed in float32, with keras_bert's offset of 1e6 for padding: a sequence of nothing but padding gives its own maximum
    minus 1e6, finite and plainly wrong.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        values = ops.cast(inputs, "float32")
        if mask is not None:
            values = ops.where(mask[..., None], values, values - 1e6)
        return ops.cast(ops.max(values, axis=-2), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-2], input_shape[-1])
