"""Products that several layers compute, each a seam for the kernels of a backend."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_bert_rebuild.layers.seam import seam


@seam
def product(dense: Any, x: Any, call: Callable[[Any], Any] | None = None) -> Any:
    """The output of a `keras.layers.Dense`.

        outputs = activation(x · kernel + bias)

    Args:
        dense: the built layer.
        x: `(..., width)`.
        call: what computes it; the layer if None.

    Returns:
        `(..., units)`.
    """
    return (call or dense)(x)


@seam
def add_bias(x: Any, bias: Any) -> Any:
    """x + bias, in the dtype of `x`.

    Args:
        x: `(..., *shape)`.
        bias: `(*shape)`.
    """
    return x + ops.cast(bias, x.dtype)


@seam
def similarities(features: Any, table: Any) -> Any:
    """The dot product of every vector with every row of a table, float32.

    Args:
        features: `(positions, width)`.
        table: `(vocabulary, width)`, in the dtype of the features.

    Returns:
        `(positions, vocabulary)`.
    """
    # Not `features @ transpose(table)`, for which TensorFlow would copy the table.
    return ops.cast(ops.einsum("nd,vd->nv", features, table), "float32")
