"""Three variants of gelu, each under its own name."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers.seam import seam


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
@seam
def gelu(x: Any) -> Any:
    """Gaussian error linear unit in Google's tanh form.

        gelu(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))

    `keras.activations.gelu` uses the error function by default; they differ by up to 5e-4.

    Example:

    >>> from keras import ops
    >>> [round(float(v), 6) for v in gelu(ops.convert_to_tensor([-1.0, 0.0, 3.0]))]
    [-0.158808, 0.0, 2.996363]

    Reference: Hendrycks and Gimpel, 2016, section 2 (https://arxiv.org/abs/1606.08415); `modeling.gelu` of google-research/bert.
    """
    return _in_float32(lambda x: 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x))), x)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
@seam
def gelu_erf(x: Any) -> Any:
    """Gaussian error linear unit with the error function: gelu(x) = x/2 · (1 + erf(x/√2)).

    It is not Keras's own, which exports to ONNX as `Erfc`, which runtimes reject.

    Reference: Hendrycks and Gimpel, 2016, section 2 (https://arxiv.org/abs/1606.08415).
    """
    return _in_float32(lambda x: 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0))), x)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
def quick_gelu(x: Any) -> Any:
    """Gaussian error linear unit in its sigmoid form: x · σ(1.702 x).

    Reference: Hendrycks and Gimpel, 2016, section 2 (https://arxiv.org/abs/1606.08415).
    """
    x = ops.convert_to_tensor(x)
    return x * ops.sigmoid(1.702 * x)


def _in_float32(function, x):
    """The function of numbers of half precision, which would round after each operation, in float32."""
    x = ops.convert_to_tensor(x)
    if keras.backend.standardize_dtype(x.dtype) in ("bfloat16", "float16"):
        return ops.cast(function(ops.cast(x, "float32")), x.dtype)
    return function(x)


# Names of activations that Keras does not know or defines differently.
ACTIVATIONS = {"gelu": gelu, "gelu_erf": gelu_erf, "quick_gelu": quick_gelu}


def get_activation(activation: str | Callable[[Any], Any] | None) -> Any:
    """The function for an activation: a name in `ACTIVATIONS` or in Keras, a function, or None for no activation.

    Raises:
        ValueError: the name is unknown.
    """
    if activation is None or callable(activation):
        return activation
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    try:
        return keras.activations.get(activation)
    except ValueError:
        raise ValueError(f"expected an activation of Keras or one of {', '.join(ACTIVATIONS)}; got {activation!r}.") from None
