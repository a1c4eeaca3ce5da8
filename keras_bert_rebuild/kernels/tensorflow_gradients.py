"""Gradients with respect to inputs, and of kernels, on TensorFlow."""

import functools

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


def with_gradient(function):
    """A function of tensors that is given with its gradient, as by `tf.custom_gradient`, in a graph of its own.

    TensorFlow keeps every call of a custom gradient for ever, and with it the graph that it is called in, such as all of a training
    step. Here that is a small graph, traced once for tensors of the same shapes and dtypes; TensorFlow inlines it in others.

    Args:
        function: of tensors; returns the result and the function from its gradient to those of the tensors.
    """
    traced = tf.function(tf.custom_gradient(function), autograph=False)

    @functools.wraps(function)
    def kernel(*tensors):
        return traced(*map(tf.convert_to_tensor, tensors))

    return kernel


def call_with_gradient(function, tensors, constants, settings):
    """See `gradients.with_gradient`."""
    return _kernel(function, len(constants), tuple(settings.items()))(*tensors, *constants)


@functools.cache
def _kernel(function, constants, settings):
    def with_all_gradients(*inputs):
        result, gradient = function(*inputs, **dict(settings))

        def input_gradients(upstream):
            gradients = gradient(upstream)
            return *(gradients if isinstance(gradients, tuple) else (gradients,)), *(None for _ in range(constants))

        return result, input_gradients

    return with_gradient(with_all_gradients)
