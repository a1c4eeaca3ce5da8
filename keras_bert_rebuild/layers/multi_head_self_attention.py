"""Multi-head self-attention."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import CompositeLayer
from keras_bert_rebuild.layers.keras_layers import Dropout
from keras_bert_rebuild.layers.masks import has_sequences, near_pairs, positions_in_sequences, visible_pairs
from keras_bert_rebuild.layers.position_embedding import angles, rotate
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.layers.seam import seam

PROJECTIONS = ("query", "key", "value", "output")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MultiHeadSelfAttention(CompositeLayer):
    """Every position attends to all positions that are not padding.

        head_h  = softmax(Q_h K_hᵀ / √K) V_h        Q, K, V = inputs · W + b, split into H heads of width K = D / H
        outputs = concat(head_1, ..., head_H) · W_output + b_output

    Its weights are `query`, `key`, `value` and `output`, each with a `kernel` `(D, D)` and a `bias` `(D,)`; in a pruned layer D is
    H · K on the side of the heads.

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
            sequence; see `layers.masks`.
        positions: `(batch, length)`, for rotary positions; None counts from 0, in packed rows in every sequence.

    Input shape: `(batch, length, hidden)`.
    Output shape: the same.
    Mask: keys at padding get a probability of exactly 0; passed on unchanged.

    Reference: Vaswani et al., 2017, section 3.2 (https://arxiv.org/abs/1706.03762).
    """

    left_out: ClassVar[Mapping[str, Any]] = {
        **CompositeLayer.left_out,
        "rotary_theta": None,
        "window": None,
        "rotary_factor": 1.0,
        "head_width": None,
    }

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
        output_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= attention_dropout < 1:
            raise ValueError(f"attention_dropout must be a rate in [0, 1); got {attention_dropout}.")
        super().__init__(**kwargs)
        self.keep(
            head_num=head_num,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            output_initializer=output_initializer,
            history_only=history_only,
            attention_dropout=attention_dropout,
            rotary_theta=rotary_theta,
            window=window,
            rotary_factor=rotary_factor,
            head_width=head_width,
        )

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
            self.add_dense(name, *sizes, self.activation)
        if self.attention_dropout > 0:
            self.dropout = Dropout(self.attention_dropout, dtype=self.dtype_policy, name="dropout")
        self.built = True

    @seam
    def call(self, inputs, mask=None, training=None, positions=None):
        mask = self.checked(mask, inputs)
        query, key, value = self.project(inputs, mask, positions)  # (B, L, D) → three times (B, L, H, K)
        return self.merge(self.attend(query, key, value, mask, training))  # (B, L, H, K) → (B, L, D)

    @seam
    def project(self, inputs: Any, mask: Any = None, positions: Any = None) -> tuple[Any, Any, Any]:
        """Queries, keys and values, each `(batch, length, heads, head width)`, with rotary positions applied."""
        query, key, value = (self.split(product(dense, inputs)) for dense in (self.query_dense, self.key_dense, self.value_dense))
        if self.rotary_theta is not None:
            rotation = angles(self.offsets(query, mask, positions), query.shape[-1], self.rotary_theta, self.rotary_factor)
            query, key = rotate(query, *rotation), rotate(key, *rotation)
        return query, key, value  # (B, L, H, K)

    @seam
    def attend(self, query: Any, key: Any, value: Any, mask: Any = None, training: bool | None = None, *shared: Any) -> Any:
        """softmax(Q Kᵀ / √K) V over the visible keys, `(batch, length, heads, head width)`; with dropout in training.

        Args:
            query, key, value: from `project`.
            mask: see `visible`.
            training: whether probabilities are dropped.
            *shared: what `position_terms` reads besides queries and keys.
        """
        probabilities = self.probabilities(query, key, mask, *shared)
        if self.attention_dropout > 0:
            probabilities = self.dropout(probabilities, training=training)
        return ops.einsum("bhls,bshk->blhk", probabilities, value)

    @seam
    def merge(self, heads: Any) -> Any:
        """The outputs of all heads, concatenated and projected, `(batch, length, hidden)`."""
        shape = ops.shape(heads)
        merged = ops.reshape(heads, (shape[0], shape[1], heads.shape[2] * heads.shape[3]))  # (B, L, H, K) → (B, L, D)
        return product(self.output_dense, merged)

    @seam
    def probabilities(self, query: Any, key: Any, mask: Any = None, *shared: Any) -> Any:
        """How much every query attends to every key, `(batch, heads, queries, keys)`; arguments as for `attend`."""
        scores, visible = ops.cast(self.scores(query, key, *shared), "float32"), self.visible(mask, query)
        if visible is not None:
            scores = ops.where(visible, scores, -1e30)
        # Of a single key, which texts of one token have, softmax is 1, and Keras warns about it.
        probabilities = ops.softmax(scores) if scores.shape[-1] != 1 else ops.ones_like(scores)
        if self.window is not None:  # a query far from all tokens sees none
            probabilities = ops.where(visible, probabilities, 0.0)
        return ops.cast(probabilities, query.dtype)  # (B, H, L, S)

    @seam
    def scores(self, query: Any, key: Any, *shared: Any) -> Any:
        """Q Kᵀ / √K, plus the terms of positions, `(batch, heads, queries, keys)`."""
        divisor = self.divisor(query.shape[-1])
        scores = ops.einsum("blhk,bshk->bhls", query, key) / divisor
        terms = self.position_terms(query, key, *shared).values()
        return scores + functools.reduce(ops.add, terms) / divisor if terms else scores

    def divisor(self, width: int) -> float:
        """The divisor of the scores for heads of this width."""
        return float(width) ** 0.5

    def position_terms(self, query: Any, key: Any, *shared: Any) -> dict[str, Any]:
        """Terms to add to queries · keys before the division, name to `(batch, heads, length, length)`; empty in this class.

        Args:
            query, key: from `project`.
            *shared: values that all blocks read, such as a table of distances `(rows, hidden)`.
        """
        return {}

    def visible(self, mask: Any, query: Any) -> Any:
        """Which keys a query may attend to, bool, broadcast to `(batch, 1, queries, keys)`; None for all.

        Args:
            mask: `(batch, length)`, False at padding, or numbers of sequences; or of pairs, which is returned; None for no padding.
            query: the queries, whose number is that of the keys unless there is a mask of pairs.
        """
        if mask is not None and len(mask.shape) == 4:
            return mask
        pairs = None if mask is None else visible_pairs(mask)
        near = near_pairs(ops.shape(query)[1], self.window, self.history_only)
        return near if pairs is None else pairs if near is None else ops.logical_and(pairs, near)

    def checked(self, mask: Any, inputs: Any) -> Any:
        """The mask of a call, of pairs with what distances hide; of tokens all True if there is none."""
        if mask is None:
            # Always pass a mask: without one, Keras's TPU kernel is causal.
            return ops.ones_like(inputs[..., 0], dtype="bool")
        if len(mask.shape) not in (2, 4):
            raise ValueError(
                f"{self.name}: a mask must be (batch, length) or (batch, 1, length, length); got shape {tuple(mask.shape)}."
            )
        near = near_pairs(ops.shape(inputs)[1], self.window, self.history_only) if len(mask.shape) == 4 else None
        return mask if near is None else ops.logical_and(mask, near)

    def offsets(self, query: Any, mask: Any, positions: Any) -> Any:
        """The positions of queries and keys, `(length,)` or `(batch, length)`: those given, or counted in every sequence."""
        if positions is not None:
            return positions
        return positions_in_sequences(mask) if has_sequences(mask) else ops.arange(ops.shape(query)[1], dtype="int32")

    def split(self, x: Any) -> Any:
        """`(batch, length, hidden)` by heads."""
        shape = ops.shape(x)
        return ops.reshape(x, (shape[0], shape[1], self.head_num, x.shape[-1] // self.head_num))  # (B, L, D) → (B, L, H, K)
