"""Position vectors: learned ones, and those of sines and cosines."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.keras_layers import look_up
from keras_bert_rebuild.layers.masks import MaskOutsideGraph, has_sequences, positions_in_sequences
from keras_bert_rebuild.layers.products import add_bias

MODE_EXPAND = "expand"
MODE_ADD = "add"
MODE_CONCAT = "concat"
MODES = (MODE_EXPAND, MODE_ADD, MODE_CONCAT)


class PositionLayer(BertLayer):
    """What the layers of positions share: the three modes."""

    def compute_output_shape(self, input_shape):
        if self.mode == MODE_EXPAND:
            return (*input_shape, self.output_dim)
        if self.mode == MODE_CONCAT:
            return (*input_shape[:-1], input_shape[-1] + self.output_dim)
        return tuple(input_shape)

    @classmethod
    def from_config(cls, config):
        # The reader of legacy .h5 files mistakes the string "add" for the function `keras.layers.add`.
        return cls(**{**config, "mode": getattr(config["mode"], "__name__", config["mode"])})


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PositionEmbedding(MaskOutsideGraph, PositionLayer):
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

    def compute_output_spec(self, inputs, mask=None):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def _check_length(self, length):
        if length is not None and length > self.max_length:
            raise ValueError(
                f"{self.name}: a sequence may have at most {self.max_length} positions, the rows of its table; got {length}."
            )


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TrigPosEmbedding(PositionLayer):
    """Gives every position a fixed vector: sines in even channels, cosines in odd ones.

        vector[p, 2i] = sin(p / 10000^(2i/D))        vector[p, 2i + 1] = cos(p / 10000^(2i/D))

    Args:
        mode: "add" or "concat" to the inputs, or "expand": the inputs are the positions.
        output_dim: width of the vectors, even; in mode "add" that of the inputs.

    Input shape: `(batch, length, hidden)`; in mode "expand" positions `(batch, length)`.
    Output shape: `(batch, length, hidden)`, in mode "concat" wider by `output_dim`.
    Mask: passed on unchanged. If it has sequence numbers (`layers.masks`), every sequence begins at position 0.

    Reference: Vaswani et al., 2017, section 3.5 (https://arxiv.org/abs/1706.03762).
    """

    max_length = None  # positions are computed, so a sequence may have any length
    offset = 0

    def __init__(self, mode: str = MODE_ADD, output_dim: int | None = None, **kwargs: Any) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}.")
        if mode != MODE_ADD and (output_dim is None or output_dim % 2):
            raise ValueError(f"output_dim must be an even number in mode {mode!r}; got {output_dim}.")
        super().__init__(**kwargs)
        if mode == MODE_EXPAND:
            self.autocast = False  # positions are integers
        self.keep(mode=mode, output_dim=output_dim)

    def call(self, inputs, mask=None):
        if self.mode == MODE_EXPAND:
            return self._vectors(inputs, self.output_dim)
        width = inputs.shape[-1] if self.mode == MODE_ADD else self.output_dim
        if has_sequences(mask):
            vectors = self._vectors(positions_in_sequences(mask), width)  # (B, L, D)
            return inputs + vectors if self.mode == MODE_ADD else ops.concatenate([inputs, vectors], axis=-1)
        vectors = self._vectors(ops.arange(ops.shape(inputs)[1], dtype="int32"), width)  # (L, D)
        if self.mode == MODE_ADD:
            return inputs + vectors
        shape = (ops.shape(inputs)[0], ops.shape(inputs)[1], width)
        return ops.concatenate([inputs, ops.broadcast_to(vectors[None], shape)], axis=-1)

    def _vectors(self, positions, width):
        angles = ops.cast(positions, "float32")[..., None] * ops.convert_to_tensor(speeds(width))
        return ops.cast(ops.where(np.arange(width) % 2 == 0, ops.sin(angles), ops.cos(angles)), self.compute_dtype)


def speeds(width):
    """The angle per position of every channel, 10000^(-2i / width) for channels 2i and 2i + 1, float32 `(width,)`."""
    # Computed in float64 and rounded once: powers of backends differ in the last bit, which distant positions amplify.
    return (10000.0 ** -(np.arange(width) // 2 * 2 / width)).astype("float32")


def angles(positions, width, theta, factor=1.0):
    """The cosines and sines of the rotation, float32 `(..., length, 1, width)`.

    Args:
        positions: positions of the tokens, `(length,)` or `(batch, length)`.
        width: width of a head, even.
        theta: pair i rotates by theta^(-2i / width) per position.
        factor: linear scaling factor: positions are divided by it.
    """
    frequencies = np.float32(theta) ** -(np.arange(0, width, 2, dtype="float32") / width) / np.float32(factor)
    phases = ops.expand_dims(ops.cast(positions, "float32"), -1) * ops.convert_to_tensor(frequencies)
    phases = ops.expand_dims(ops.concatenate([phases, phases], -1), -2)
    return ops.cos(phases), ops.sin(phases)


def rotate(x, cosines, sines):
    """Heads `(batch, length, heads, width)`, rotated in float32; features i and i + width / 2 are a pair.

    Reference: Su et al., 2021, section 3.2.2 (https://arxiv.org/abs/2104.09864), with the halves of a head as pairs.
    """
    values = ops.cast(x, "float32")
    first, second = ops.split(values, 2, axis=-1)
    rotated = values * cosines + ops.concatenate([-second, first], -1) * sines
    return ops.cast(rotated, x.dtype)
