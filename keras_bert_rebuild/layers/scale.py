"""A constant factor."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Scale(keras.layers.Layer):
    """Multiply by a constant: `outputs = factor · inputs`.

    Args:
        factor: the constant; √hidden for the token vectors of the Transformer.

    Input shape: any.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Vaswani et al., 2017, section 3.4 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(self, factor: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = float(factor)
        self.supports_masking = True

    def call(self, inputs):
        return inputs * self.factor

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}
