"""Gradients with respect to inputs on torch."""

import keras
import torch


def value_and_gradient(function, tensors):
    """The value, the other tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and other tensors.
        tensors: a tensor, or a structure of them.
    """
    with torch.enable_grad():
        inputs = keras.tree.map_structure(lambda tensor: tensor.detach().clone().requires_grad_(True), tensors)
        value, more = function(inputs)
        flat = keras.tree.flatten(inputs)
        # Not `backward`, which would accumulate gradients of weights.
        found = torch.autograd.grad(value, flat, allow_unused=True) if value.requires_grad else [None] * len(flat)
    gradients = [torch.zeros_like(x) if gradient is None else gradient for gradient, x in zip(found, flat, strict=True)]
    detached = keras.tree.map_structure(lambda tensor: tensor.detach(), more)
    return value.detach(), detached, keras.tree.pack_sequence_as(inputs, gradients)


def without_history(function, *arguments):
    """Call a function without building a graph for a backward pass."""
    with torch.no_grad():
        return function(*arguments)
