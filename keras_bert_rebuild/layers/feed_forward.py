"""The position-wise feed-forward network."""

from typing import Any

import keras

from keras_bert_rebuild import kernels
from keras_bert_rebuild.layers.activations import ACTIVATIONS
from keras_bert_rebuild.layers.composite import CompositeLayer, sub_dense, sub_layer_dtype
from keras_bert_rebuild.layers.keras_layers import Dropout

DENSES = ("gate_dense", "intermediate_dense", "output_dense")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class FeedForward(CompositeLayer):
    """Two dense layers, applied to every position independently.

        outputs = activation(inputs · W_intermediate + b_intermediate) · W_output + b_output

    With a gate, the output of the first layer is multiplied by the activation of a third:

        outputs = (activation(inputs · W_gate + b_gate) · (inputs · W_intermediate + b_intermediate)) · W_output + b_output

    Its weights are `intermediate`, `output` and, with a gate, `gate`, each with a `kernel` and a `bias`.

    Args:
        units: intermediate size.
        activation: activation between the two layers.
        use_bias: whether the layers have biases.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint: for all
            layers; each gets a copy of the initializer.
        gated: whether there is a gate.
        output_initializer: initializer of the kernel of `output`; None for `kernel_initializer`.
        dropout_rate: dropout rate of intermediate activations in training, in [0, 1); 0 in BERT.
        use_output_bias: whether `output` has a bias; None for `use_bias`.

    Input shape: `(batch, length, hidden)`.
    Output shape: the same.
    Mask: passed on unchanged. In the training steps of a pretraining model, outputs at padding may be any numbers.

    Reference: Vaswani et al., 2017, section 3.3 (https://arxiv.org/abs/1706.03762); Shazeer, 2020, section 2, for the gate
    (https://arxiv.org/abs/2002.05202).
    """

    def __init__(
        self,
        units: int,
        activation: Any = "relu",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_normal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        dropout_rate: float = 0.0,
        gated: bool = False,
        use_output_bias: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= dropout_rate < 1:
            raise ValueError(f"dropout_rate must be a rate in [0, 1); got {dropout_rate}.")
        options = kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint
        super().__init__(activation, use_bias, *options, **kwargs)
        self.units = units
        self.dropout_rate = dropout_rate
        self.gated = gated
        self.use_output_bias = use_output_bias

    def build(self, input_shape):
        hidden_size = input_shape[-1]
        if self.gated:
            self.gate_dense = sub_dense(self, "gate", hidden_size, self.units)
        self.intermediate_dense = sub_dense(self, "intermediate", hidden_size, self.units)
        self.output_dense = sub_dense(self, "output", self.units, hidden_size, use_bias=self.use_output_bias)
        if self.dropout_rate > 0:
            self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy, name="dropout")
        self.built = True

    def call(self, inputs, training=None, mask=None):
        # Only our own activations: any other may have variables, for which a kernel has no gradient, or read other tokens.
        in_kernels = training and self.activation in ACTIVATIONS.values()
        if in_kernels and self.edit is None and self.dropout_rate == 0:
            return kernels.of_tokens(lambda tokens: self._of_tokens(tokens, training, in_kernels), inputs, mask)
        return self._of_tokens(inputs, training, in_kernels)

    def _of_tokens(self, inputs, training, in_kernels):
        intermediate = kernels.dense(self.intermediate_dense, inputs)
        if self.gated:
            gate = kernels.dense(self.gate_dense, inputs)
            intermediate = (kernels.in_one_kernel(self.activation) if in_kernels else self.activation)(gate) * intermediate
            if self.dropout_rate > 0:
                intermediate = self.dropout(intermediate, training=training)
            return kernels.dense(self.output_dense, self.edited(intermediate))
        if in_kernels and self.dropout_rate == 0 and self.edit is None:
            return kernels.activated_dense(self.activation, self.output_dense, intermediate, self.compute_dtype)
        intermediate = (kernels.in_one_kernel(self.activation) if in_kernels else self.activation)(intermediate)
        if self.dropout_rate > 0:
            intermediate = self.dropout(intermediate, training=training)
        return kernels.dense(self.output_dense, self.edited(intermediate))

    def get_config(self):
        return {
            **super().get_config(),
            "dtype": sub_layer_dtype(self, DENSES),
            "units": self.units,
            **self.dense_config(),
            "dropout_rate": self.dropout_rate,
            **({"gated": True} if self.gated else {}),
            **({} if self.use_output_bias is None else {"use_output_bias": self.use_output_bias}),
        }
