"""Layer normalisation with BERT's epsilon."""

import functools
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels

EPSILON = 1e-12


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis with an epsilon of 1e-12 instead of Keras's 1e-3.

        outputs = gamma · (inputs − mean) / √(variance + epsilon) + beta

    Keras computes the moments in float32 whatever the dtype, so 1e-12 is safe in half precision.

    Args:
        epsilon: added to the variance; None means the default.
        **kwargs: those of `keras.layers.LayerNormalization`.

    Input shape: `(..., hidden)`.
    Output shape: the same.
    Mask: passed on unchanged.

    Reference: Ba et al., 2016, section 3 (https://arxiv.org/abs/1607.06450); 1e-12 is `layer_norm` of google-research/bert.
    """

    def __init__(self, epsilon: float | None = EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=EPSILON if epsilon is None else epsilon, **kwargs)

    def call(self, inputs, training=None):
        if not training or self.gamma is None or self.beta is None or self.rms_scaling:
            return super().call(inputs)
        axis = tuple(self.axis) if isinstance(self.axis, (list, tuple)) else self.axis
        outputs = kernels.in_one_kernel(_normalize(axis, self.epsilon))(inputs, self.gamma.value, self.beta.value)
        return ops.cast(outputs, self.compute_dtype)


@functools.cache
def _normalize(axis, epsilon):
    """The function of inputs, gamma and beta; cached, since each function is compiled once."""
    return lambda inputs, gamma, beta: ops.layer_normalization(inputs, gamma, beta, axis, epsilon)
