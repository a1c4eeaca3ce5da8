"""The vector of XLNet's query stream."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class QueryEmbedding(keras.layers.Layer):
    """Passes the sequence on, and holds the vector that XLNet's query stream has instead of tokens to predict.

        outputs = inputs

    The model is the content stream, whose outputs do not depend on the vector; only XLNet's pretraining uses and trains it. The
    layer exists because files of XLNet have the vector.

    Args:
        initializer: initializer of the vector.
        trained: whether the vector is trainable.

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
