"""Gradients with respect to inputs on TensorFlow."""

import tensorflow as tf


def value_and_gradient(function, tensors):
    """The value, the other tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and other tensors.
        tensors: a tensor, or a structure of them.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        value, more = function(tensors)
    return value, more, tape.gradient(value, tensors, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def without_history(function, *arguments):
    """Call a function: outside a gradient, TensorFlow retains nothing."""
    return function(*arguments)
