"""A dense layer with a residual connection."""

from typing import Any

import keras

from keras_bert_rebuild.layers.composite import sub_layer_dtype

DENSES = ("dense", "shortcut")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ResidualDense(keras.layers.Layer):
    """A dense layer whose input is added to its output.

        outputs = activation(inputs · W + b) + inputs            if the widths are equal
        outputs = activation(inputs · W + b) + inputs · W_shortcut

    Its weights are `dense/kernel`, `dense/bias` and, if the widths differ, `shortcut/kernel`.

    Args:
        units: number of outputs.
        activation: activation of the dense layer; None for none.
        use_bias: whether the dense layer has a bias.
        kernel_initializer: initializer of both kernels.

    Input shape: `(..., features)`.
    Output shape: `(..., units)`.
    Mask: passed on.

    Reference: He et al., 2016, section 3.2 (https://arxiv.org/abs/1512.03385).
    """

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if units < 1:
            raise ValueError(f"units must be at least 1; got {units}.")
        self.units, self.use_bias = units, use_bias
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        width = input_shape[-1]
        self.dense = self._dense("dense", width, self.activation, self.use_bias)
        self.shortcut = self._dense("shortcut", width, None, False) if width != self.units else None
        self.built = True

    def _dense(self, name, width, activation, use_bias):
        # A layer may be frozen before it has sub-layers; and one initializer instance would give equal values twice.
        initializer = self.kernel_initializer.clone()
        options = {"use_bias": use_bias, "kernel_initializer": initializer, "trainable": self.trainable, "name": name}
        dense = keras.layers.Dense(self.units, activation, dtype=self.dtype_policy, **options)
        dense.build((None, width))
        return dense

    def call(self, inputs):
        return self.dense(inputs) + (inputs if self.shortcut is None else self.shortcut(inputs))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "dtype": sub_layer_dtype(self, [name for name in DENSES if getattr(self, name, None) is not None]),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
