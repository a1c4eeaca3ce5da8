"""The first numbers of a vector."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class FirstFeatures(keras.layers.Layer):
    """Cut vectors after `width` numbers: a vector that was trained so is a vector of less precision when cut.

    Args:
        width: the numbers to leave.

    Input shape: `(..., features)`.
    Output shape: `(..., width)`.
    Mask: passed on.

    Raises:
        ValueError: `width` is not from 1 to the width of the input.

    Reference: Kusupati et al., 2022, section 3 (https://arxiv.org/abs/2205.13147).
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.supports_masking = True

    def build(self, input_shape):
        if not 1 <= self.width <= input_shape[-1]:
            raise ValueError(f"width must be from 1 to {input_shape[-1]}, the numbers of a vector; got {self.width}.")

    def call(self, inputs):
        return inputs[..., : self.width]

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.width)

    def get_config(self):
        return {**super().get_config(), "width": self.width}
