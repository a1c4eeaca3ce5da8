"""The vector from which XLNet's second stream predicts tokens."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class QueryEmbedding(keras.layers.Layer):
    """Pass the sequence on, and hold the vector that the query stream of XLNet's pretraining has in place of tokens to predict.

        outputs = inputs

    The model is the content stream, which every use but that pretraining runs: its outputs do not depend on the vector. Only
    that pretraining trains it; files of XLNet have it.

    Args:
        initializer: of the vector.
        trained: whether the vector is trained.

    Input shape: `(batch, length, hidden)`.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Yang et al., 2019, section 2.3 (https://arxiv.org/abs/1906.08237).
    """

    def __init__(self, initializer: Any = "uniform", trained: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer = keras.initializers.get(initializer)
        self.trained = trained
        self.supports_masking = True

    def build(self, input_shape):
        shape = (1, input_shape[-1])
        self.vector = self.add_weight(shape=shape, initializer=self.initializer, trainable=self.trained, name="vector")
        self.built = True

    def call(self, inputs):
        return inputs

    def compute_output_shape(self, input_shape):
        return tuple(input_shape)

    def get_config(self):
        trained = {"trained": True} if self.trained else {}
        return {**super().get_config(), "initializer": keras.initializers.serialize(self.initializer), **trained}
