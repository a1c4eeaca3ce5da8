"""A vector for the task, added to every position."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.keras_layers import look_up


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TaskEmbedding(BertLayer):
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
        self.keep(
            input_dim=input_dim,
            output_dim=output_dim,
            embeddings_initializer=embeddings_initializer,
            embeddings_regularizer=embeddings_regularizer,
            embeddings_constraint=embeddings_constraint,
            mask_zero=mask_zero,
        )
        self.autocast = False  # ids given as floats must not be rounded to half precision

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
