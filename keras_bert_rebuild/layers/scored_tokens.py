"""The vectors of tokens that are compared; those of others are zeros."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ScoredTokens(keras.layers.Layer):
    """Vectors of tokens, and zeros where a token is not to be compared, such as padding and punctuation.

    Input shape: a list of vectors `(batch, length, width)` and numbers `(batch, length)`, 0 where a token is not compared.
    Output shape: `(batch, length, width)`.
    Mask: consumed, the output has none.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        self.built = True

    def call(self, inputs):
        vectors, scored = inputs
        return vectors * ops.cast(ops.not_equal(scored, 0), vectors.dtype)[..., None]

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return input_shape[0]
