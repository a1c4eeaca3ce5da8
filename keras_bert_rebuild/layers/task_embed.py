"""A vector for the task, added to every position."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.keras_layers import look_up


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TaskEmbedding(keras.layers.Layer):
    """Adds the vector of a task to every position: `outputs[b, l] = inputs[b, l] + embeddings[task[b]]`.

    Args:
        input_dim: number of tasks.
        output_dim: hidden size.
        embeddings_initializer, embeddings_regularizer, embeddings_constraint: for the table.
        mask_zero: task 0 adds nothing. This does not mask positions.

    Input shape: a list of `(batch, length, hidden)` and task ids `(batch, 1)` or `(batch, length)`.
    Output shape: `(batch, length, hidden)`.
    Mask: that of the sequence, passed on.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.embeddings_regularizer = keras.regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = keras.constraints.get(embeddings_constraint)
        self.mask_zero = mask_zero
        self.autocast = False  # ids given as floats must not be rounded to half precision
        self.supports_masking = True

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            shape=(self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
            name="embeddings",
        )
        self.built = True

    def call(self, inputs):
        sequence, task = inputs
        task = ops.cast(task, "int32")
        vectors = ops.cast(look_up(self.embeddings, task), self.compute_dtype)  # (B, 1, D) or (B, L, D)
        if self.mask_zero:
            vectors = vectors * ops.cast(ops.not_equal(task, 0), vectors.dtype)[..., None]
        return ops.cast(sequence, self.compute_dtype) + vectors

    def compute_mask(self, inputs, mask=None):
        return mask[0] if isinstance(mask, (list, tuple)) else mask

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(inputs[0].shape, dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "embeddings_regularizer": keras.regularizers.serialize(self.embeddings_regularizer),
            "embeddings_constraint": keras.constraints.serialize(self.embeddings_constraint),
            "mask_zero": self.mask_zero,
        }
