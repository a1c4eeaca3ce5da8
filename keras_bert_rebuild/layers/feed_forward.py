"""The position-wise feed-forward network."""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from keras_bert_rebuild.layers.arguments import CompositeLayer
from keras_bert_rebuild.layers.keras_layers import Dropout
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.layers.seam import seam


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

    left_out: ClassVar[Mapping[str, Any]] = {**CompositeLayer.left_out, "gated": False, "use_output_bias": None}

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
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= dropout_rate < 1:
            raise ValueError(f"dropout_rate must be a rate in [0, 1); got {dropout_rate}.")
        super().__init__(**kwargs)
        self.keep(
            units=units,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            output_initializer=output_initializer,
            dropout_rate=dropout_rate,
            gated=gated,
            use_output_bias=use_output_bias,
        )

    def build(self, input_shape):
        hidden_size = input_shape[-1]
        if self.gated:
            self.add_dense("gate", hidden_size, self.units)
        self.add_dense("intermediate", hidden_size, self.units)
        self.add_dense("output", self.units, hidden_size, use_bias=self.use_output_bias)
        if self.dropout_rate > 0:
            self.dropout = Dropout(self.dropout_rate, dtype=self.dtype_policy, name="dropout")
        self.built = True

    @seam
    def call(self, inputs, training=None, mask=None):
        return self.outer(self.inner(inputs, training))  # (B, L, D) → (B, L, F) → (B, L, D)

    @seam
    def inner(self, inputs: Any, training: bool | None = None) -> Any:
        """The activations between the two layers, `(batch, length, units)`."""
        x = product(self.intermediate_dense, inputs)
        x = self.activate(product(self.gate_dense, inputs), training) * x if self.gated else self.activate(x, training)
        return self.dropout(x, training=training) if self.dropout_rate > 0 else x  # (B, L, F)

    @seam
    def activate(self, x: Any, training: bool | None = None) -> Any:
        """The activation."""
        return self.activation(x)

    @seam
    def outer(self, x: Any) -> Any:
        """The outputs, `(batch, length, hidden)`, from those of `inner`."""
        return product(self.output_dense, x)
