"""Gradients by inputs on TensorFlow."""

import tensorflow as tf


def value_and_gradient(function, tensors):
    """The value, the further tensors and the gradient: see `gradients.value_and_gradient`.

    Args:
        function: from the tensors to a scalar and further tensors.
        tensors: a tensor, or a structure of them.
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        value, more = function(tensors)
    return value, more, tape.gradient(value, tensors, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def without_history(function, *arguments):
    """What a function returns: nothing is retained outside of a gradient."""
    return function(*arguments)
