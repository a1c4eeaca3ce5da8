"""The table of distances that all attention layers of a model share."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class RelativeEmbedding(keras.layers.Layer):
    """A table with a row for every distance between two tokens, or every bucket of distances.

        outputs = embeddings

    Args:
        input_dim: rows of the table.
        output_dim: width of a row.
        embeddings_initializer: for the table.

    Input shape: any; the input is ignored, and only places the layer in the graph.
    Output shape: `(input_dim, output_dim)`.
    Mask: none.

    Reference: He et al., 2021, section 3.1 (https://arxiv.org/abs/2006.03654).
    """

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.supports_masking = True

    def build(self, input_shape=None):
        shape = (self.input_dim, self.output_dim)
        self.embeddings = self.add_weight(shape=shape, initializer=self.embeddings_initializer, name="embeddings")
        self.built = True

    def call(self, inputs):
        return ops.cast(ops.convert_to_tensor(self.embeddings), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (self.input_dim, self.output_dim)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }
