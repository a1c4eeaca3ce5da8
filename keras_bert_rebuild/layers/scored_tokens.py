"""Token vectors for late interaction; those of tokens that are not compared are zeroed."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ScoredTokens(keras.layers.Layer):
    """Token vectors, zeroed at tokens that are not compared, such as padding and punctuation.

    Input shape: a list of vectors `(batch, length, width)` and numbers `(batch, length)`, 0 at tokens that are not compared.
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
