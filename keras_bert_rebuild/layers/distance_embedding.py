"""Sinusoids of the distances between tokens."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.sine_positions import speeds


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistanceEmbedding(keras.layers.Layer):
    """A fixed vector for every distance from L to −L + 1 between the tokens of a sequence of length L.

        vector[d] = [sin(d · s_0), ..., sin(d · s_(D/2−1)), cos(d · s_0), ..., cos(d · s_(D/2−1))]        s_i = 10000^(−2i/D)

    Args:
        reach: the distance beyond which distances are clipped; None for no limit.

    Input shape: `(batch, length, hidden)`, of which only the shape is used; `hidden` must be even.
    Output shape: `(2 · length, hidden)`.
    Mask: none.

    Reference: Dai et al., 2019, section 3.3 (https://arxiv.org/abs/1901.02860).
    """

    def __init__(self, reach: int | None = None, **kwargs: Any) -> None:
        if reach is not None and reach < 1:
            raise ValueError(f"reach must be at least 1, or None; got {reach}.")
        super().__init__(**kwargs)
        self.reach = reach
        self.supports_masking = True

    def build(self, input_shape=None):
        if input_shape is not None and input_shape[-1] % 2:
            raise ValueError(f"{self.name}: the width must be even, half for sines and half for cosines; got {input_shape[-1]}.")
        self.built = True

    def call(self, inputs):
        return self.vectors(ops.shape(inputs)[1], ops.shape(inputs)[1], inputs.shape[-1])

    def vectors(self, queries, keys, width):
        """The vectors of the distances `keys` to `−queries + 1`, `(queries + keys, width)`."""
        distances = keys - ops.arange(queries + keys, dtype="int32")
        if self.reach is not None:
            distances = ops.clip(distances, -self.reach, self.reach)
        angles = ops.cast(distances, "float32")[:, None] * ops.convert_to_tensor(speeds(width)[::2])
        return ops.cast(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (None if input_shape[1] is None else 2 * input_shape[1], input_shape[2])

    def compute_output_spec(self, inputs):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "reach": self.reach}
