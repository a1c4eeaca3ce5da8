"""Gradients with respect to inputs on JAX."""

import jax


def value_and_gradient(function, tensors):
    """The value, the other tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and other tensors.
        tensors: a tensor, or a structure of them.
    """
    (value, more), gradient = jax.value_and_grad(function, has_aux=True)(tensors)
    return value, more, gradient


def without_history(function, *arguments):
    """Call a function: outside a gradient, JAX retains nothing."""
    return function(*arguments)
