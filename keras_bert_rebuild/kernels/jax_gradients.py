"""Gradients by inputs on JAX."""

import jax


def value_and_gradient(function, tensors):
    """The value, the further tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and further tensors.
        tensors: a tensor, or a structure of them.
    """
    (value, more), gradient = jax.value_and_grad(function, has_aux=True)(tensors)
    return value, more, gradient


def without_history(function, *arguments):
    """What a function returns: nothing is retained outside of a gradient."""
    return function(*arguments)
