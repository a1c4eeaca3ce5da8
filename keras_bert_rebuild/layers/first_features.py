"""The first dimensions of a vector (Matryoshka embeddings)."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class FirstFeatures(keras.layers.Layer):
    """Truncates vectors to `width` dimensions; vectors trained for it remain useful, with less precision.

    Args:
        width: number of dimensions to keep.

    Input shape: `(..., features)`.
    Output shape: `(..., width)`.
    Mask: passed on.

    Raises:
        ValueError: `width` is below 1 or above the width of the input.

    Reference: Kusupati et al., 2022, section 3 (https://arxiv.org/abs/2205.13147).
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.supports_masking = True

    def build(self, input_shape):
        if not 1 <= self.width <= input_shape[-1]:
            raise ValueError(f"width must be from 1 to {input_shape[-1]}, the width of the input; got {self.width}.")

    def call(self, inputs):
        return inputs[..., : self.width]

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.width)

    def get_config(self):
        return {**super().get_config(), "width": self.width}
