"""Multi-head self-attention."""

import functools
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.layers.composite import CompositeLayer, sub_dense, sub_layer_dtype
from keras_bert_rebuild.layers.keras_layers import Dropout
from keras_bert_rebuild.layers.sine_positions import angles, rotate

PROJECTIONS = ("query", "key", "value", "output")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MultiHeadSelfAttention(CompositeLayer):
    """Every position attends to all positions that are not padding.

        head_h  = softmax(Q_h K_hᵀ / √K) V_h        Q, K, V = inputs · W + b, split into H heads of width K = D / H
        outputs = concat(head_1, ..., head_H) · W_output + b_output

    Computed by `kernels.attention`, which uses the fused kernel of a backend if there is one: always in inference, and in training
    unless `attention_dropout` is above 0. Its weights are `query`, `key`, `value` and `output`, each with a `kernel` `(D, D)` and a
    `bias` `(D,)`; in a pruned layer D is H · K on the side of the heads.

    Args:
        head_num: number of heads; must divide the hidden size.
        activation: activation of queries, keys, values and outputs, as in keras_bert; None for BERT.
        use_bias: whether the four projections have biases.
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint: for the
            four projections; each gets a copy of the initializer.
        history_only: causal attention: attend only to the position itself and those before it.
        attention_dropout: dropout rate of attention probabilities in training, in [0, 1). keras_bert has none.
        rotary_theta: base of the rotary positions of queries and keys; None for no rotary positions.
        window: how many tokens on either side a token attends to; None for all.
        rotary_factor: linear scaling factor: positions are divided by it before the rotation.
        output_initializer: initializer of the kernel of `output`; None for `kernel_initializer`.
        head_width: width K of a head, for pruned layers, whose heads keep their width; None for D / H.

    Call arguments:
        inputs: `(batch, length, hidden)`.
        mask: `(batch, length)`, False at padding; supplied by Keras. If passed explicitly, also `(batch, 1, length, length)`, True
            where a query may attend to a key. In packed rows sequence numbers, int32 `(batch, length)`: a query attends to its own
            sequence; see `kernels.sequences`.
        positions: `(batch, length)`, for rotary positions; None counts from 0, in packed rows in every sequence.

    Input shape: `(batch, length, hidden)`.
    Output shape: the same.
    Mask: keys at padding get a probability of exactly 0; passed on unchanged.
    In the training steps of a pretraining model inputs and outputs may be tokens alone; see `kernels.real_tokens`.

    Reference: Vaswani et al., 2017, section 3.2 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self,
        head_num: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_normal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        history_only: bool = False,
        attention_dropout: float = 0.0,
        rotary_theta: float | None = None,
        window: int | None = None,
        rotary_factor: float = 1.0,
        head_width: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= attention_dropout < 1:
            raise ValueError(f"attention_dropout must be a rate in [0, 1); got {attention_dropout}.")
        options = kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint
        super().__init__(activation, use_bias, *options, **kwargs)
        self.head_num = head_num
        self.history_only = history_only
        self.attention_dropout = attention_dropout
        self.rotary_theta = rotary_theta
        self.window = window
        self.rotary_factor = rotary_factor
        self.head_width = head_width

    def build(self, input_shape):
        hidden_size = input_shape[-1]
        if self.head_num < 1 or (self.head_width is None and hidden_size % self.head_num):
            # The type and the start of the message are keras_bert's.
            raise IndexError(
                f"Invalid head number {self.head_num} with the given input dim {hidden_size}: "
                f"the number of heads of {self.name} must divide its hidden size."
            )
        self.head_size = hidden_size // self.head_num if self.head_width is None else self.head_width
        of_heads = self.head_num * self.head_size
        for name in PROJECTIONS:
            sizes = (of_heads, hidden_size) if name == "output" else (hidden_size, of_heads)
            setattr(self, f"{name}_dense", sub_dense(self, name, *sizes, self.activation))
        if self.attention_dropout > 0:
            self.dropout = Dropout(self.attention_dropout, dtype=self.dtype_policy, name="dropout")
        self.built = True

    def queries_keys_values(self, inputs: Any, positions: Any = None) -> tuple[Any, Any, Any]:
        """Queries, keys and values, each `(batch, length, heads, head width)`, with rotary positions applied."""
        query = self._split_heads(kernels.with_padding(kernels.dense(self.query_dense, inputs)))
        key = self._split_heads(kernels.with_padding(kernels.dense(self.key_dense, inputs)))
        value = self._split_heads(kernels.with_padding(kernels.dense(self.value_dense, inputs)))
        if self.rotary_theta is not None:
            offsets = ops.arange(ops.shape(query)[1], dtype="int32") if positions is None else positions
            rotation = angles(offsets, query.shape[-1], self.rotary_theta, self.rotary_factor)
            query, key = rotate(query, *rotation), rotate(key, *rotation)
        return query, key, value

    def divisor(self, width: int) -> float:
        """The divisor of the scores for heads of this width."""
        return float(width) ** 0.5

    def position_terms(self, query: Any, key: Any, *shared: Any) -> dict[str, Any]:
        """Terms to add to queries · keys before the division, name to `(batch, heads, length, length)`; empty in this class.

        Args:
            query, key: from `queries_keys_values`.
            *shared: values that all blocks read, such as a table of distances `(rows, hidden)`.
        """
        return {}

    def visible_keys(self, length: Any) -> Any:
        """Which keys a query may attend to by their distance, `(length, length)`; None for all."""
        if not self.history_only and self.window is None:
            return None
        positions = ops.arange(length, dtype="int32")
        distance = positions[None, :] - positions[:, None]
        visible = distance <= 0 if self.history_only else None
        if self.window is not None:
            within = ops.abs(distance) <= self.window
            visible = within if visible is None else ops.logical_and(visible, within)
        return visible

    def call(self, inputs, mask=None, training=None, positions=None):
        mask = kernels.padding_mask(mask)
        if positions is None and self.rotary_theta is not None and kernels.has_sequences(mask):
            positions = kernels.positions_in_sequences(mask)
        if mask is None:
            # Always pass a mask: without one, Keras's TPU kernel is causal.
            mask = ops.ones_like(inputs[..., 0], dtype="bool")
        elif len(mask.shape) not in (2, 4):
            raise ValueError(
                f"{self.name}: a mask must be (batch, length) or (batch, 1, length, length); got shape {tuple(mask.shape)}."
            )
        options = {
            "causal": self.history_only,
            "dropout": self.attention_dropout if training else 0.0,
            "seeds": self.dropout.seed_generator if self.attention_dropout else None,
        }
        attended = None
        if self.rotary_theta is None and self.window is None:
            denses = self.query_dense, self.key_dense, self.value_dense
            attended = kernels.attention_of_inputs(inputs, denses, self.head_num, mask, **options)
        if attended is None:
            attend = kernels.attention if self.window is None else functools.partial(kernels.windowed_attention, window=self.window)
            attended = attend(*self.queries_keys_values(inputs, positions), mask, **options)
        merged = kernels.without_padding(self.edited(self._merge_heads(attended), mask))
        return kernels.dense(self.output_dense, merged)

    def get_config(self):
        return {
            **super().get_config(),
            "dtype": sub_layer_dtype(self, [f"{name}_dense" for name in PROJECTIONS]),
            "head_num": self.head_num,
            **self.dense_config(),
            "history_only": self.history_only,
            "attention_dropout": self.attention_dropout,
            **({} if self.rotary_theta is None else {"rotary_theta": self.rotary_theta}),
            **({} if self.window is None else {"window": self.window}),
            **({} if self.rotary_factor == 1 else {"rotary_factor": self.rotary_factor}),
            **({} if self.head_width is None else {"head_width": self.head_width}),
        }

    def _split_heads(self, x):
        shape = ops.shape(x)
        return ops.reshape(x, (shape[0], shape[1], self.head_num, x.shape[-1] // self.head_num))  # (B, L, D) → (B, L, H, K)

    def _merge_heads(self, x):
        shape = ops.shape(x)
        return ops.reshape(x, (shape[0], shape[1], x.shape[2] * x.shape[3]))  # (B, L, H, K) → (B, L, D)
