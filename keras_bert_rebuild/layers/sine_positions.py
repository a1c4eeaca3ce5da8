"""Sinusoidal positions of the Transformer, and rotary positions, which rotate queries and keys."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.masks import has_sequences, positions_in_sequences
from keras_bert_rebuild.layers.position_embedding import MODE_ADD, MODE_CONCAT, MODE_EXPAND, MODES


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TrigPosEmbedding(BertLayer):
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
