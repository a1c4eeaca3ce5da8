"""`Dense` with a softmax that can also return its logits."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` whose activation runs in float32, and which can return its logits.

        outputs = activation(logits)        logits = inputs · kernel + bias

    A loss computed from probabilities saturates where a probability rounds to zero, and in bfloat16 it has three digits. So the
    train step takes the logits, and `predict` still returns probabilities.

    Args:
        units: number of outputs.
        activation: applied to the logits, in float32.
        **kwargs: those of `keras.layers.Dense`.

    Call arguments:
        inputs: `(..., hidden)`.
        return_logits: return the logits instead of the activations.

    Input shape: `(..., hidden)`.
    Output shape: `(..., units)`, float32.
    Mask: passed on unchanged.
    """

    def __init__(self, units: int, activation: Any = "softmax", **kwargs: Any) -> None:
        super().__init__(units, activation=None, **kwargs)
        self.output_activation = keras.activations.get(activation)

    def call(self, inputs, training=None, return_logits=False):
        return self._finish(super().call(inputs), return_logits)

    def quantized_call(self, inputs, training=None, return_logits=False):
        return self._finish(super().quantized_call(inputs), return_logits)

    def _finish(self, outputs, return_logits):
        logits = ops.cast(outputs, "float32")
        return logits if return_logits else self.output_activation(logits)

    def compute_output_spec(self, inputs, training=None, return_logits=False):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="float32")

    def quantize(self, mode=None, type_check=True, config=None):
        # Keras refuses subclasses of Dense because they may read the kernel raw; this one does not.
        super().quantize(mode, type_check=type_check and type(self) is not Dense, config=config)

    def get_config(self):
        return {**super().get_config(), "activation": keras.activations.serialize(self.output_activation)}
