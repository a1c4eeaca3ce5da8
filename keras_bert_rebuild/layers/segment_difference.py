"""Which pairs of tokens are in different segments."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class SegmentDifference(keras.layers.Layer):
    """True for pairs of tokens in different segments: `outputs[b, i, j] = inputs[b, i] ≠ inputs[b, j]`.

    Segment ids are only compared, so their values have no meaning, and a text may have any number of segments.

    Input shape: segment ids `(batch, length)`.
    Output shape: `(batch, length, length)`, bool.
    Mask: none.

    Reference: Yang et al., 2019, section 2.5 (https://arxiv.org/abs/1906.08237).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False

    def call(self, inputs):
        return ops.not_equal(inputs[:, :, None], inputs[:, None, :])

    def compute_output_shape(self, input_shape):
        return (*input_shape, input_shape[1])

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="bool")
