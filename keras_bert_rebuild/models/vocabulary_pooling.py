"""Weights of all words of the vocabulary for a text: logits of the MLM head pooled over its tokens, a few texts at a time."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.kernels.gradients import with_gradient
from keras_bert_rebuild.layers.token_embedding import EmbeddingSimilarity

# Number of texts whose logits are in memory at once: 63 MB with 128 tokens and 30,522 words.
TEXTS_AT_ONCE = 4

# Replaces the logits of padding, so that their weight is 0.
OF_PADDING = -1e30

# Activations that map a logit to a weight, by name: how often x → log(1 + x) is applied to max(0, logit).
ACTIVATIONS = {"log1p_relu": 1, "log1p_log1p_relu": 2}

POOLINGS = ("max", "sum")


class VocabularyPooling(keras.layers.Layer):
    """The weights of a text, from the inputs of the output layer of the MLM head.

        logits = features · embeddingsᵀ + bias        outputs = max over tokens, or sum, of log(1 + max(0, logits))

    The logits of all texts of a batch, `(batch, length, vocabulary)`, are never in memory at once, not even in training: the
    backward pass of a maximum needs only its token, and that of a sum recomputes the logits. Sums are float32.

    The layer uses the weights of another layer and is not saved: the saved model is the one with that layer.

    Args:
        similarity: the output layer of the MLM head, whose bias it adds.
        pooling: "max" or "sum".
        activation: one of `ACTIVATIONS`.

    Input shape: a list of features `(batch, length, width)` and the token table `(vocabulary, width)`.
    Output shape: `(batch, vocabulary)`, float32, at least 0.
    Mask: the mask of the features is used; the output has none.

    Reference: Formal et al., 2021, section 3 (https://arxiv.org/abs/2107.05720), and 2021b for the maximum
    (https://arxiv.org/abs/2109.10086).
    """

    def __init__(
        self, similarity: EmbeddingSimilarity, pooling: str = "max", activation: str = "log1p_relu", **kwargs: Any
    ) -> None:
        super().__init__(dtype=similarity.dtype_policy, **kwargs)
        self.similarity, self.pooling, self.times = similarity, pooling, ACTIVATIONS[activation]
        self.supports_masking = True

    def build(self, input_shape):
        self.built = True

    def call(self, inputs, mask=None):
        features, table = inputs
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        real = ops.ones_like(features[..., 0], "float32") if mask is None else ops.cast(mask, "float32")
        if self.similarity.stop_gradient:
            table = ops.stop_gradient(table)
        bias = ops.cast(self.similarity.bias, "float32") if self.similarity.use_bias else ops.zeros(table.shape[:1], "float32")
        if self.pooling == "max":
            # Weights increase with logits, so the maximum can be taken first.
            return _weights(max_logits(features, table, bias, real), self.times)
        return sums_of_weights(features, table, bias, real, self.times)

    def get_config(self):
        activation = next(name for name, times in ACTIVATIONS.items() if times == self.times)
        return {"name": self.name, "pooling": self.pooling, "activation": activation}  # it is never saved

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_spec(self, inputs, mask=None):
        features, table = inputs
        return keras.KerasTensor((features.shape[0], table.shape[0]), dtype="float32")


def max_logits(features: Any, table: Any, bias: Any, real: Any) -> Any:
    """For every word the maximum of its logit over the tokens of a text, `(batch, vocabulary)`, float32.

    Args:
        features: `(batch, length, width)`.
        table: `(vocabulary, width)`, in the dtype of the features.
        bias: `(vocabulary,)`, float32.
        real: 1 at tokens and 0 at padding, `(batch, length)`, float32; a text without tokens has `OF_PADDING`.
    """
    return with_gradient(_max_logits, (features, table, bias), (real,))


def sums_of_weights(features: Any, table: Any, bias: Any, real: Any, times: int) -> Any:
    """For every word the sum of its weights over the tokens of a text, `(batch, vocabulary)`: see `max_logits`.

    Args:
        features, table, bias, real: as for `max_logits`.
        times: see `ACTIVATIONS`.
    """
    return with_gradient(_sums_of_weights, (features, table, bias), (real,), times=times)


def _max_logits(features, table, bias, real):
    """The result of `max_logits`, and its gradient."""
    features, tokens, batch, count = _in_parts(features, real)

    def forward(i, maxima):
        logits = _logits(features, table, bias, tokens, i)
        best = ops.cast(ops.argmax(logits, axis=1), "int32")
        return (
            ops.slice_update(maxima[0], (i * TEXTS_AT_ONCE, 0), ops.max(logits, axis=1)),
            ops.slice_update(maxima[1], (i * TEXTS_AT_ONCE, 0), best),
        )

    shape = (count * TEXTS_AT_ONCE, bias.shape[0])
    values, best = ops.fori_loop(0, count, forward, (ops.zeros(shape, "float32"), ops.zeros(shape, "int32")))

    def gradient(upstream):
        upstream = _padded(upstream, count * TEXTS_AT_ONCE)
        numbers = ops.arange(ops.shape(features)[1], dtype="int32")[None, :, None]

        def logit_gradients(i):
            at_best = ops.cast(ops.equal(numbers, _slice(best, i)[:, None, :]), "float32")
            return at_best * _slice(upstream, i)[:, None, :]

        return _gradients(features, table, bias, tokens, count, batch, logit_gradients)

    return values[:batch], gradient


def _sums_of_weights(features, table, bias, real, times):
    """The result of `sums_of_weights`, and its gradient."""
    features, tokens, batch, count = _in_parts(features, real)

    def forward(i, sums):
        weights = _weights(_logits(features, table, bias, tokens, i), times)
        return ops.slice_update(sums, (i * TEXTS_AT_ONCE, 0), ops.sum(weights, axis=1))

    values = ops.fori_loop(0, count, forward, ops.zeros((count * TEXTS_AT_ONCE, bias.shape[0]), "float32"))

    def gradient(upstream):
        upstream = _padded(upstream, count * TEXTS_AT_ONCE)

        def logit_gradients(i):
            logits = _logits(features, table, bias, tokens, i)
            slopes = ops.cast(logits > 0, "float32")
            weights = ops.maximum(logits, 0.0)
            for _ in range(times):
                slopes, weights = slopes / (1 + weights), ops.log1p(weights)
            return slopes * _slice(upstream, i)[:, None, :]

        return _gradients(features, table, bias, tokens, count, batch, logit_gradients)

    return values[:batch], gradient


def _gradients(features, table, bias, tokens, count, batch, logit_gradients):
    """The gradients of features, table and bias, from a function that returns the gradients of the logits of part i."""

    def backward(i, sums):
        of_features, of_table, of_bias = sums
        gradients = logit_gradients(i) * _slice(tokens, i)[..., None]
        low = ops.cast(gradients, features.dtype)
        of_features = ops.slice_update(of_features, (i * TEXTS_AT_ONCE, 0, 0), ops.einsum("blv,vd->bld", low, table))
        of_table = of_table + ops.cast(ops.einsum("blv,bld->vd", low, _slice(features, i)), "float32")
        return of_features, of_table, of_bias + ops.sum(gradients, axis=(0, 1))

    zeros = (ops.zeros_like(features), ops.zeros(table.shape, "float32"), ops.zeros(bias.shape, "float32"))
    of_features, of_table, of_bias = ops.fori_loop(0, count, backward, zeros)
    return of_features[:batch], ops.cast(of_table, table.dtype), of_bias


def _in_parts(features, real):
    """Features and tokens padded to whole parts, the number of texts, and the number of parts."""
    batch = ops.shape(features)[0]
    count = (batch + TEXTS_AT_ONCE - 1) // TEXTS_AT_ONCE
    return _padded(features, count * TEXTS_AT_ONCE), _padded(real, count * TEXTS_AT_ONCE), batch, count


def _logits(features, table, bias, tokens, i):
    logits = ops.cast(ops.einsum("bld,vd->blv", _slice(features, i), table), "float32") + bias
    return ops.where(_slice(tokens, i)[..., None] > 0, logits, OF_PADDING)


def _weights(logits, times):
    weights = ops.maximum(logits, 0.0)
    for _ in range(times):
        weights = ops.log1p(weights)
    return weights


def _slice(x, i):
    """Part `i` of the first axis; the sizes of the others may be known only at run time."""
    first = i * TEXTS_AT_ONCE
    return ops.slice(x, (first, *[0] * (len(x.shape) - 1)), (TEXTS_AT_ONCE, *ops.shape(x)[1:]))


def _padded(x, size):
    """The first axis padded with zeros to `size`."""
    return ops.concatenate([x, ops.zeros((size - ops.shape(x)[0], *ops.shape(x)[1:]), x.dtype)], axis=0)
