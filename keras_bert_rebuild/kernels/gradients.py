"""Gradients of a function of tensors with respect to its inputs, found by the backend (without those of weights) or given."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import keras

# Backend to its module, whose `value_and_gradient(function, tensors)` differentiates by the inputs only.
MODULES = {
    "jax": "keras_bert_rebuild.kernels.jax_operations",
    "tensorflow": "keras_bert_rebuild.kernels.tensorflow_gradients",
    "torch": "keras_bert_rebuild.kernels.torch_kernels",
}


def value_and_gradient(function: Callable[..., Any], array: Any, *, auxiliary: bool = False) -> tuple[Any, Any]:
    """A function's value and its gradient with respect to its input, in float32; safe inside a model.

    Args:
        function: from a float32 tensor, or a list, tuple or dict of such tensors, to a scalar tensor; with `auxiliary`, to a scalar
            tensor and other tensors. It must call models in inference mode (`training=False`).
        array: the input, an array or tensor, or a list, tuple or dict of them.
        auxiliary: whether the function also returns other tensors.

    Returns:
        The value, with `auxiliary` also the other tensors; and the gradient, in the structure of `array`, 0 for inputs that do not
        affect the value. All are detached tensors of the backend.

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
    """Call a function without retaining anything for gradients: less memory and time on torch.

    Args:
        function: any function of tensors.
        *arguments: its arguments.
    """
    return importlib.import_module(MODULES[keras.config.backend()]).without_history(function, *arguments)


def with_gradient(function: Callable[..., Any], tensors: Sequence[Any], constants: Sequence[Any] = (), **settings: Any) -> Any:
    """Call a function that gives its own gradient, instead of the one that a backend would find.

    TensorFlow keeps every custom gradient for ever, and what its function refers to. So it is a function of a module, and all that
    it needs is passed.

    Args:
        function: of the tensors, the constants and the settings; returns the result, and the function from the gradient of the
            result to that of the tensor, or to a tuple of those of the tensors.
        tensors: what has gradients.
        constants: further tensors, which have none.
        **settings: hashable arguments.
    """
    if keras.config.backend() == "tensorflow":
        return importlib.import_module(MODULES["tensorflow"]).call_with_gradient(function, tensors, constants, settings)

    @keras.ops.custom_gradient
    def value_of_tensors(*tensors):
        result, gradient = function(*tensors, *constants, **settings)
        # The upstream gradient has a name on torch only.
        return result, lambda *upstreams, upstream=None: gradient(upstreams[0] if upstream is None else upstream)

    return value_of_tensors(*tensors)
