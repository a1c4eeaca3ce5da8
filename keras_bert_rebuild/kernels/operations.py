"""Operations of layers that have kernels, each with its plain form in `keras.ops`.

The plain form defines the operation. If `table.py` has a kernel for the running backend whose condition holds, the kernel runs
instead, with the same values and gradients. Callers do not depend on the backend.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.kernels.choice import choose
from keras_bert_rebuild.kernels.sequences import visible_pairs
from keras_bert_rebuild.kernels.traits import is_half


def attention(query: Any, key: Any, value: Any, mask: Any, *, causal: bool = False, dropout: float = 0.0, seeds: Any = None) -> Any:
    """softmax(Q Kᵀ / √K) V over the keys that the mask allows, with dropout of the probabilities.

    Without dropout this is `keras.ops.dot_product_attention`, for which backends have fused kernels. These do not support dropout,
    so the plain form of attention with dropout materialises its scores, with the softmax in float32.

    Args:
        query, key, value: `(batch, length, heads, width)`.
        mask: bool, False where a key must not be attended to: `(batch, length)` for padding, or `(batch, 1, length, length)`. Or
            sequence numbers, int32 `(batch, length)`: a query attends to the keys of its own sequence; see `sequences`.
        causal: a query attends only to keys up to its own position.
        dropout: dropout rate of the probabilities, in [0, 1).
        seeds: with dropout, the `keras.random.SeedGenerator` to draw from.

    Returns:
        `(batch, length, heads, width)`.
    """
    kernel = choose("attention", query, mask, causal, dropout, seeds)
    if kernel is not None and dropout:
        return kernel(query, key, value, mask, causal, dropout, seeds)
    if kernel is not None:
        return kernel(query, key, value, mask)
    if not dropout:
        return ops.dot_product_attention(query, key, value, mask=visible_pairs(mask), is_causal=causal)
    scores = ops.einsum("blhk,bshk->bhls", query, key) / (query.shape[-1] ** 0.5)
    scores = ops.where(visible_pairs(mask, causal), ops.cast(scores, "float32"), -1e30)
    probabilities = keras.random.dropout(ops.cast(ops.softmax(scores), query.dtype), dropout, seed=seeds)
    return ops.einsum("bhls,bshk->blhk", probabilities, value)


def attention_of_inputs(
    inputs: Any, denses: Sequence[Any], heads: int, mask: Any, *, causal: bool = False, dropout: float = 0.0, seeds: Any = None
) -> Any:
    """`attention` of queries, keys and values that dense layers compute from the same inputs; None if no kernel does both.

    Args:
        inputs: `(batch, length, hidden)`.
        denses: the built `keras.layers.Dense` of queries, keys and values.
        heads: into how many heads their outputs are divided.
        mask: `(batch, length)`, or of pairs; see `attention`.
        causal, dropout, seeds: see `attention`.

    Returns:
        `(batch, length, heads, width)`, or None.
    """
    kernel = choose("attention_of_inputs", denses, heads, mask, causal, dropout)
    return None if kernel is None else kernel(inputs, denses, heads, mask, dropout, seeds)


def windowed_attention(
    query: Any, key: Any, value: Any, mask: Any, window: int, *, causal: bool = False, dropout: float = 0.0, seeds: Any = None
) -> Any:
    """`attention` in which a query attends only to keys at most `window` tokens away; a query without visible keys gives zeros.

    The plain form compares every query with every key.

    Args:
        query, key, value, mask, causal, dropout, seeds: see `attention`.
        window: how many tokens on either side a query attends to.

    Returns:
        `(batch, length, heads, width)`.
    """
    kernel = choose("windowed_attention", query, window)
    return (within_window if kernel is None else kernel)(query, key, value, mask, window, causal, dropout, seeds)


def within_window(query: Any, key: Any, value: Any, mask: Any, window: int, causal: bool, dropout: float, seeds: Any) -> Any:
    """The plain form of `windowed_attention`."""
    positions = ops.arange(ops.shape(query)[1], dtype="int32")
    ahead = positions[None, :] - positions[:, None]
    visible = ops.abs(ahead) <= window
    if causal:
        visible = ops.logical_and(visible, ahead <= 0)
    return attention_of_pairs(query, key, value, ops.logical_and(visible_pairs(mask), visible), dropout, seeds)


def attention_of_pairs(query: Any, key: Any, value: Any, mask: Any, dropout: float, seeds: Any) -> Any:
    """`attention` that gives zeros for queries without visible keys, for which backends differ.

    Args:
        query, key, value, dropout, seeds: see `attention`; there may be more keys than queries.
        mask: bool, `(batch, 1, queries, keys)`.
    """
    attended = attention(query, key, value, mask, dropout=dropout, seeds=seeds)
    return ops.where(ops.any(mask, axis=-1)[:, 0, :, None, None], attended, ops.zeros_like(attended))


def dropout(x: Any, rate: float, seeds: Any, noise_shape: Any = None) -> Any:
    """x / (1 − rate) at retained values, else 0.

    Args:
        x: a tensor.
        rate: dropout rate, in (0, 1].
        seeds: the `keras.random.SeedGenerator` to draw from.
        noise_shape: see `keras.random.dropout`.
    """
    kernel = choose("dropout", rate)
    if kernel is not None:
        return kernel(x, rate, seeds, noise_shape)
    return keras.random.dropout(x, rate, noise_shape=noise_shape, seed=seeds)


def gelu(x: Any, approximate: str) -> Any:
    """Gaussian error linear unit, x · Φ(x); for half precision, which would round after each operation, in float32.

    The plain form is written with `erf`, since Keras's own gelu exports to ONNX as `Erfc`, which runtimes reject.

    Args:
        x: a tensor.
        approximate: "tanh" for Google's approximation of Φ, "none" for the error function.
    """
    kernel = choose("gelu")
    if kernel is not None:
        return kernel(x, approximate)
    if is_half(keras.backend.standardize_dtype(x.dtype)):
        return ops.cast(gelu(ops.cast(x, "float32"), approximate), x.dtype)
    if approximate == "tanh":
        return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


@functools.cache
def in_one_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of tensors, for training: one pass over memory, saving only its inputs for the backward pass.

    Not for inference, which is exported to runtimes without XLA.

    Args:
        function: a function of tensors that returns one tensor, written in `keras.ops`. Pass the same object each time: it is
            compiled once.
    """
    kernel = choose("in_one_kernel")
    return function if kernel is None else kernel(function)


def layer_normalization(x: Any, gamma: Any, beta: Any, axis: Any, epsilon: float) -> Any:
    """gamma · (x − mean) / √(variance + epsilon) + beta, for training, with moments in float32.

    Args:
        x: a tensor.
        gamma, beta: scale and offset, in the shape of the axes.
        axis: the axes of the moments, a number or a tuple.
        epsilon: added to the variance.
    """
    kernel = choose("layer_normalization", x, axis)
    return ops.layer_normalization(x, gamma, beta, axis, epsilon) if kernel is None else kernel(x, gamma, beta, axis, epsilon)


def dense(layer: Any, x: Any, call: Callable[[Any], Any] | None = None) -> Any:
    """The output of a `keras.layers.Dense` for `(..., width)`; in half precision the gradient of its bias is summed in float32.

    Args:
        layer: the built layer.
        x: a tensor.
        call: the plain form; the layer if None.
    """
    kernel, call = choose("dense", layer), call or layer
    return call(x) if kernel is None else kernel(layer, x, call)


def of_tokens(function: Callable[[Any], Any], x: Any, mask: Any) -> Any:
    """function(x), of each token by itself; any numbers are possible at padding in a step that reads nothing there.

    Args:
        function: a function of `(..., width)` with results of the same shape.
        x: `(batch, length, width)`.
        mask: `(batch, length)`, or None; see `attention`.
    """
    kernel = choose("of_tokens", x.shape[-1], mask)
    return function(x) if kernel is None else kernel(function, x, mask)


def tokens_alone(width: int, mask: Any) -> Any | None:
    """A context in which layers compute tokens alone, in a step that reads nothing at padding; None if they compute padding, too.

    Args:
        width: how many numbers a token has.
        mask: `(batch, length)`, or None; see `attention`.

    Returns:
        A context with a `real_tokens.RealTokens`, or None.
    """
    kernel = choose("tokens_alone", width, mask)
    return None if kernel is None else kernel(mask)


def similarities(features: Any, table: Any) -> Any:
    """The dot product of every vector with every row of a table of embeddings, float32.

    Args:
        features: `(positions, width)`.
        table: `(vocabulary, width)`, in the dtype of the features.

    Returns:
        `(positions, vocabulary)`.
    """
    kernel = choose("similarities", keras.backend.standardize_dtype(features.dtype))
    # Not `features @ transpose(table)`, for which TensorFlow would copy the table.
    return ops.cast(ops.einsum("nd,vd->nv", features, table), "float32") if kernel is None else kernel(features, table)


def add_bias(x: Any, bias: Any) -> Any:
    """x + bias in the dtype of `x`; in half precision the gradient of the bias is summed in float32.

    Args:
        x: `(..., *shape)`.
        bias: `(*shape)`.
    """
    kernel = choose("add_bias", keras.backend.standardize_dtype(x.dtype))
    return x + ops.cast(bias, x.dtype) if kernel is None else kernel(x, ops.convert_to_tensor(bias))


def activated_dense(activation: Callable[[Any], Any], layer: Any, x: Any, dtype: str) -> Any:
    """layer(activation(x)), for training.

    Args:
        activation: a function of a tensor, written in `keras.ops`, without variables.
        layer: a built `keras.layers.Dense`.
        x: `(..., inputs)`.
        dtype: dtype of the product.
    """
    kernel = choose("activated_dense", layer)
    if kernel is None:
        return dense(layer, in_one_kernel(activation)(x))
    # The kernel, and the bias if there is one.
    return kernel(activation, x, *(ops.cast(weight, dtype) for weight in layer.weights))


def replica_count() -> int:
    """How many replicas of a TensorFlow strategy share a batch; 1 outside its scope and on other backends."""
    kernel = choose("replica_count")
    return 1 if kernel is None else kernel()


def sum_over_replicas(gradients: list[Any]) -> list[Any]:
    """The gradients of the whole batch from those of each replica; None, for a variable without gradient, stays None."""
    kernel = choose("sum_over_replicas")
    return gradients if kernel is None else kernel(gradients)


def mean_over_replicas(value: Any, count: Any) -> tuple[Any, Any, Any]:
    """The mean over the labels of all replicas.

    Args:
        value: what Keras computes on this replica: the mean over its labels, divided by the number of replicas.
        count: the number of its labels, or the sum of their weights.

    Returns:
        The part of this replica in the mean over all labels, which has the gradient; that mean; and an equal share of the count of
        all labels. On one device: value, value and count.
    """
    kernel = choose("mean_over_replicas")
    return (value, value, count) if kernel is None else kernel(value, count)


def bounded_scan(step: Callable[[Any, Any], Any], carry: Any, positions: Any) -> Any:
    """The carry after the last position: carry ← step(carry, position) for each position in order.

    Args:
        step: a function of a tuple of tensors and the tensors at a position that returns the next tuple.
        carry: the tuple before the first position.
        positions: tensors `(length, ...)`, split along their first axis.
    """
    kernel = choose("bounded_scan")
    if kernel is not None:
        return kernel(step, carry, positions)
    return ops.scan(lambda carry, position: (step(carry, position), None), carry, positions)[0]
