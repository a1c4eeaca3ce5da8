"""Gradients of a function of tensors with respect to its input, while the weights of the models inside of it stay as they are."""

import importlib
from collections.abc import Callable
from typing import Any

import keras

# A backend and its module: `value_and_gradient(function, tensors)` differentiates by the inputs alone.
MODULES = {
    "jax": "keras_bert_rebuild.kernels.jax_gradients",
    "tensorflow": "keras_bert_rebuild.kernels.tensorflow_gradients",
    "torch": "keras_bert_rebuild.kernels.torch_gradients",
}


def value_and_gradient(function: Callable[..., Any], array: Any, *, auxiliary: bool = False) -> tuple[Any, Any]:
    """A function's value and its gradient by its input, in float32; safe inside a model, whose weights get no gradients.

    Args:
        function: from a float32 tensor, or from a list, tuple or dict of such tensors, to a scalar tensor; with `auxiliary` to a
            scalar tensor and further tensors. It reads models as in prediction (`training=False`).
        array: the input, an array or tensor, or a list, tuple or dict of them.
        auxiliary: whether the function returns more than the scalar.

    Returns:
        The value, or with `auxiliary` the value and the further tensors; and the gradient, in the structure of `array` and 0 for
        what the value does not depend on. All of them are tensors of the backend without a history.

    Raises:
        ValueError: the value is not a scalar.
    """
    tensors = keras.tree.map_structure(lambda values: keras.ops.convert_to_tensor(values, dtype="float32"), array)

    def checked(inputs):
        answer = function(inputs)
        value, more = answer if auxiliary else (answer, ())
        if len(value.shape):
            raise ValueError(f"the function must return a scalar to be differentiated; got a tensor of shape {tuple(value.shape)}.")
        return keras.ops.cast(value, "float32"), more

    value, more, gradient = importlib.import_module(MODULES[keras.config.backend()]).value_and_gradient(checked, tensors)
    return ((value, more) if auxiliary else value), gradient


def without_history(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, where nothing is retained for gradients: less memory and time on torch.

    Args:
        function: any function of tensors.
        *arguments: its arguments.
    """
    return importlib.import_module(MODULES[keras.config.backend()]).without_history(function, *arguments)
