"""Mask leading tokens, such as those of a prompt, for later layers."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class WithoutLeadingTokens(keras.layers.Layer):
    """Passes a sequence on and masks its first tokens, such as those of a prompt that is not pooled.

    Args:
        count: number of tokens to mask, from the first that is not padding.

    Input shape: `(batch, length, hidden)`.
    Output shape: that of the input.
    Mask: the mask of the input without the first `count` tokens; None while the graph is built (see `Add`).
    """

    def __init__(self, count: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if count < 0:
            raise ValueError(f"count must be at least 0; got {count}.")
        self.count = count
        self.supports_masking = True

    def call(self, inputs, mask=None):
        # A new tensor, since the mask is attached to the tensor and the input keeps its own.
        return inputs + ops.zeros((), dtype=inputs.dtype)

    def compute_mask(self, inputs, mask=None):
        if isinstance(inputs, keras.KerasTensor):
            return None
        tokens = ops.ones_like(inputs[..., 0], dtype="bool") if mask is None else ops.cast(mask, "bool")
        return ops.logical_and(tokens, ops.cumsum(ops.cast(tokens, "int32"), axis=-1) > self.count)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "count": self.count}
