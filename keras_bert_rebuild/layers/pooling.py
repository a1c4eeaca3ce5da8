"""Pooling over positions that are not padding, and which tokens are pooled or compared."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.masks import MaskOutsideGraph


class _MaskedPool(BertLayer):
    """Base class: a vector per sequence, computed in float32 and returned in the compute dtype."""

    def call(self, inputs, mask=None):
        return ops.cast(self._pooled(ops.cast(inputs, "float32"), mask), self.compute_dtype)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-2], input_shape[-1])


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MaskedGlobalMaxPool1D(_MaskedPool):
    """The maximum of every feature over positions that are not padding.

    Computed in float32, with keras_bert's offset of −1e6 for padding: a sequence of padding only gives its own maximum minus 1e6,
    which is finite and obviously wrong.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none.
    """

    def _pooled(self, values, mask):
        if mask is not None:
            values = ops.where(mask[..., None], values, values - 1e6)
        return ops.max(values, axis=-2)


def _tokens(values, mask):
    """1 at tokens and 0 at padding, float32 `(batch, length)`."""
    return ops.ones_like(values[..., 0]) if mask is None else ops.cast(mask, "float32")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MaskedSquareRootPool1D(_MaskedPool):
    """The sum over positions that are not padding, divided by the square root of their number.

        outputs[b] = Σ_i inputs[b, i] / √n

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none. A sequence of padding only gives 0.

    Reference: Cer et al., 2018, section 3 (https://arxiv.org/abs/1803.11175); `mean_sqrt_len_tokens` of sentence-transformers.
    """

    def _pooled(self, values, mask):
        tokens = _tokens(values, mask)
        count = ops.maximum(ops.sum(tokens, axis=-1, keepdims=True), 1.0)
        return ops.sum(values * tokens[..., None], axis=-2) / ops.sqrt(count)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MaskedPositionPool1D(_MaskedPool):
    """The mean over positions that are not padding, weighted by position: later tokens have seen more.

        outputs[b] = Σ_i w_i inputs[b, i] / Σ_i w_i,  w_i = first, first + 1, ... from the first position that is not padding

    Args:
        first: the weight of the first position that is not masked: 1, or 1 plus the number of tokens masked before it.

    Input shape: `(batch, length, hidden)`.
    Output shape: `(batch, hidden)`.
    Mask: consumed, the output has none. A sequence of padding only gives 0.

    Reference: Muennighoff, 2022, section 3.1.2 (https://arxiv.org/abs/2202.08904); `weightedmean` of sentence-transformers.
    """

    def __init__(self, first: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if first < 1:
            raise ValueError(f"first must be at least 1; got {first}.")
        self.keep(first=first)

    def _pooled(self, values, mask):
        tokens = _tokens(values, mask)
        begun = ops.cast(ops.cumsum(tokens, axis=-1) > 0, "float32")
        weights = (ops.cumsum(begun, axis=-1) + (self.first - 1.0)) * tokens
        total = ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1.0)
        return ops.sum(values * weights[..., None], axis=-2) / total


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class WithoutLeadingTokens(MaskOutsideGraph, BertLayer):
    """Passes a sequence on and masks its first tokens, such as those of a prompt that is not pooled.

    Args:
        count: number of tokens to mask, from the first that is not padding.

    Input shape: `(batch, length, hidden)`.
    Output shape: that of the input.
    Mask: the mask of the input without the first `count` tokens; None while the graph is built (see `Add`).
    """

    def __init__(self, count: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if count < 0:
            raise ValueError(f"count must be at least 0; got {count}.")
        self.keep(count=count)

    def call(self, inputs, mask=None):
        # A new tensor, since the mask is attached to the tensor and the input keeps its own.
        return inputs + ops.zeros((), dtype=inputs.dtype)

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        tokens = ops.ones_like(inputs[..., 0], dtype="bool") if mask is None else ops.cast(mask, "bool")
        return ops.logical_and(tokens, ops.cumsum(ops.cast(tokens, "int32"), axis=-1) > self.count)

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ScoredTokens(BertLayer):
    """Token vectors, zeroed at tokens that are not compared, such as padding and punctuation.

    Input shape: a list of vectors `(batch, length, width)` and numbers `(batch, length)`, 0 at tokens that are not compared.
    Output shape: `(batch, length, width)`.
    Mask: consumed, the output has none.
    """

    def build(self, input_shape):
        self.built = True

    def call(self, inputs):
        vectors, scored = inputs
        return vectors * ops.cast(ops.not_equal(scored, 0), vectors.dtype)[..., None]

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, input_shape):
        return input_shape[0]
