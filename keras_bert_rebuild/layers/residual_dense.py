"""A dense layer with a residual connection."""

from typing import Any

import keras

from keras_bert_rebuild.layers.arguments import BertLayer, cloned, dtype_of_composite

DENSES = ("dense", "shortcut")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ResidualDense(BertLayer):
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
        self.keep(units=units, activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer)

    def build(self, input_shape):
        width = input_shape[-1]
        self.dense = self._dense("dense", width, self.activation, self.use_bias)
        self.shortcut = self._dense("shortcut", width, None, False) if width != self.units else None
        self.built = True

    def _dense(self, name, width, activation, use_bias):
        # A layer may be frozen before it has sub-layers.
        options = {
            "use_bias": use_bias,
            "kernel_initializer": cloned(self.kernel_initializer),
            "trainable": self.trainable,
            "name": name,
        }
        dense = keras.layers.Dense(self.units, activation, dtype=self.dtype_policy, **options)
        dense.build((None, width))
        return dense

    def call(self, inputs):
        return self.dense(inputs) + (inputs if self.shortcut is None else self.shortcut(inputs))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        denses = [dense for dense in (getattr(self, name, None) for name in DENSES) if dense is not None]
        return {**super().get_config(), "dtype": dtype_of_composite(self, denses)}
