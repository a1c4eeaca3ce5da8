"""Convolution over positions that are not padding."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MaskedConv1D(keras.layers.Conv1D):
    """`keras.layers.Conv1D` that zeroes padding and sets an output mask of the right length.

    Input shape: `(batch, length, channels)`.
    Output shape: that of `keras.layers.Conv1D`.
    Mask: with padding "valid" an output has the mask of the last position of its window, as in keras_bert; otherwise that of its
        own position, every `strides`-th one.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        if mask is not None:
            inputs = inputs * ops.cast(mask, inputs.dtype)[..., None]
        return super().call(inputs)

    def compute_mask(self, inputs, mask=None):
        if mask is None:
            return None
        if self.padding == "valid":
            mask = mask[:, (self.kernel_size[0] - 1) * self.dilation_rate[0] :]
        return mask[:, :: self.strides[0]]
