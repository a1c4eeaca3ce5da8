"""Learned position vectors."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.keras_layers import look_up
from keras_bert_rebuild.layers.masks import MaskOutsideGraph, has_sequences, positions_in_sequences
from keras_bert_rebuild.layers.products import add_bias

MODE_EXPAND = "expand"
MODE_ADD = "add"
MODE_CONCAT = "concat"
MODES = (MODE_EXPAND, MODE_ADD, MODE_CONCAT)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PositionEmbedding(MaskOutsideGraph, BertLayer):
    """Gives every position of a sequence a learned vector.

        mode "add":      outputs[b, l] = inputs[b, l] + embeddings[offset + l]
        mode "concat":   outputs[b, l] = inputs[b, l] ‖ embeddings[offset + l]
        mode "expand":   outputs[b, l] = embeddings[clip(inputs[b, l], −input_dim, input_dim) + input_dim]

    Args:
        input_dim: rows of the table; the maximum length is `input_dim − offset`. In mode "expand" there are 2 · input_dim + 1 rows.
        output_dim: width of a row; in mode "add" that of the inputs.
        mode: "add", "concat" or "expand"; anything else is an error.
        embeddings_initializer, embeddings_regularizer, embeddings_constraint: for the table.
        mask_zero: in mode "expand" the position used for padding, as in keras-pos-embd: True means 1, 0 means none.
        offset: row of the first position in modes "add" and "concat"; 2 in RoBERTa, 0 in BERT.

    Input shape: `(batch, length, hidden)`; in mode "expand" integers `(batch, length)`.
    Output shape: `(batch, length, hidden)`, in mode "concat" wider by `output_dim`.
    Mask: passed on unchanged in modes "add" and "concat". If it has sequence numbers (`layers.masks`), every sequence begins
        at the first position.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        mode: str = MODE_EXPAND,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        offset: int = 0,
        **kwargs: Any,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}.")
        super().__init__(**kwargs)
        if mode == MODE_EXPAND:
            self.autocast = False  # positions are integers
        self.keep(
            input_dim=input_dim,
            output_dim=output_dim,
            mode=mode,
            embeddings_initializer=embeddings_initializer,
            embeddings_regularizer=embeddings_regularizer,
            embeddings_constraint=embeddings_constraint,
            mask_zero=mask_zero,
            offset=offset,
        )

    @property
    def max_length(self) -> int:
        """Maximum sequence length."""
        return self.input_dim - self.offset

    def build(self, input_shape):
        if self.mode == MODE_ADD and input_shape[-1] != self.output_dim:
            raise ValueError(
                f"{self.name}: in mode 'add' inputs must have the width of the table, {self.output_dim}; got {tuple(input_shape)}."
            )
        if self.mode != MODE_EXPAND:
            self._check_length(input_shape[1])
        rows = 2 * self.input_dim + 1 if self.mode == MODE_EXPAND else self.input_dim
        self.embeddings = self.add_weight(
            shape=(rows, self.output_dim),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
            name="embeddings",
            autocast=False,
        )
        self.built = True

    def call(self, inputs, mask=None):
        if self.mode == MODE_EXPAND:
            positions = ops.clip(ops.cast(inputs, "int32"), -self.input_dim, self.input_dim)
            return ops.cast(look_up(self.embeddings, positions + self.input_dim), self.compute_dtype)
        packed = has_sequences(mask)
        rows = self.rows_of_sequences(mask) if packed else self.rows(inputs)  # (B, L, D) or (L, D)
        if self.mode == MODE_ADD:
            return inputs + rows if packed else add_bias(inputs, rows)
        rows = ops.broadcast_to(ops.cast(rows, self.compute_dtype), (*ops.shape(inputs)[:2], self.output_dim))
        return ops.concatenate([inputs, rows], axis=-1)

    def rows(self, inputs: Any) -> Any:
        """The rows of the positions of a sequence, `(length, output_dim)`."""
        self._check_length(inputs.shape[1])
        length = ops.shape(inputs)[1]
        # The reshape makes lengths known only at run time fail if they exceed the table, which would otherwise be broadcast.
        return ops.reshape(self.embeddings[self.offset : self.offset + length], (length, self.output_dim))  # (P, D) → (L, D)

    def rows_of_sequences(self, mask: Any) -> Any:
        """Those of the positions in every sequence, `(batch, length, output_dim)`, from a mask with sequence numbers."""
        self._check_length(mask.shape[1])
        # Cast afterwards: in half precision the sum of the gradients of a row is slow on a GPU, and loses most of them.
        return ops.cast(look_up(self.embeddings, positions_in_sequences(mask) + self.offset), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return super().compute_mask(inputs) if self.mode == MODE_EXPAND else mask

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        return ops.not_equal(inputs, int(self.mask_zero)) if self.mask_zero else None

    def compute_output_shape(self, input_shape):
        if self.mode == MODE_EXPAND:
            return (*input_shape, self.output_dim)
        if self.mode == MODE_CONCAT:
            return (*input_shape[:-1], input_shape[-1] + self.output_dim)
        return tuple(input_shape)

    def compute_output_spec(self, inputs, mask=None):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    @classmethod
    def from_config(cls, config):
        # The reader of legacy .h5 files mistakes the string "add" for the function `keras.layers.add`.
        return cls(**{**config, "mode": getattr(config["mode"], "__name__", config["mode"])})

    def _check_length(self, length):
        if length is not None and length > self.max_length:
            raise ValueError(
                f"{self.name}: a sequence may have at most {self.max_length} positions, the rows of its table; got {length}."
            )
