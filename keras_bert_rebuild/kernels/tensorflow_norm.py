"""TensorFlow: layer normalisation in one kernel forward, and one backward that needs only the inputs.

On a processor XLA sums a row in several steps, each with an array of its own; a product with a column of ones takes half as long.
"""

import functools

import tensorflow as tf
from keras import ops

from keras_bert_rebuild.kernels.kernel import kernel, norm_axis, normalizes_in_training
from keras_bert_rebuild.kernels.tensorflow_gradients import with_gradient
from keras_bert_rebuild.kernels.tensorflow_kernels import compile_by_xla, compiled, widened
from keras_bert_rebuild.layers.keras_layers import LayerNormalization

# Rows narrower than this are summed as fast, and faster in a step that XLA compiles as a whole, which fuses sums but not products.
WIDE = 512


@kernel(LayerNormalization.call, "tensorflow", when=normalizes_in_training)
def normalize_in_one_kernel(rest, layer, x, training=None):
    """XLA computes in one pass over memory what the graph computes operation by operation.

    Measured: Activations and dropout on processors
    """
    outputs = normalize(x, layer.gamma.value, layer.beta.value, norm_axis(layer), layer.epsilon)
    return ops.cast(outputs, layer.compute_dtype)


def normalize(x, gamma, beta, axis, epsilon):
    """gamma · (x − mean) / √(variance + epsilon) + beta, with moments in float32.

    Args:
        x, gamma, beta, axis, epsilon: see `keras.ops.layer_normalization`.

    Returns:
        The shape and dtype of `x`.
    """
    wide = axis in (-1, (-1,), x.shape.rank - 1, (x.shape.rank - 1,)) and x.shape[-1] >= WIDE
    return (_by_products(epsilon) if wide and _is_on_processor() else _by_xla(axis, epsilon))(x, gamma, beta)


def _is_on_processor():
    """Whether there are processors alone; accelerators multiply numbers of float32 with fewer digits."""
    return {device.device_type for device in tf.config.list_logical_devices()} == {"CPU"}


@functools.cache
def _by_xla(axis, epsilon):
    return compiled(lambda x, gamma, beta: ops.layer_normalization(x, gamma, beta, axis, epsilon))


@functools.cache
def _by_products(epsilon):
    """Normalisation over the last axis, with products instead of sums."""

    @compile_by_xla
    def forward(x, gamma, beta):
        centered, inverse = _moments(widened(x), epsilon)
        return tf.cast(centered * inverse * widened(gamma) + widened(beta), x.dtype)

    @compile_by_xla
    def backward(upstream, x, gamma, beta):
        centered, inverse = _moments(widened(x), epsilon)
        normal, upstream = centered * inverse, widened(upstream)
        weighted = upstream * widened(gamma)
        of_x = (weighted - _row_means(weighted) - normal * _row_means(weighted * normal)) * inverse
        rows = range(x.shape.rank - 1)
        of_gamma, of_beta = (tf.reduce_sum(values, rows) for values in (upstream * normal, upstream))
        return tf.cast(of_x, x.dtype), tf.cast(of_gamma, gamma.dtype), tf.cast(of_beta, beta.dtype)

    return with_gradient(lambda *inputs: (forward(*inputs), lambda upstream: backward(upstream, *inputs)))


def _moments(x, epsilon):
    """x − mean and 1 / √(variance + epsilon), of each row."""
    centered = x - _row_means(x)
    return centered, tf.math.rsqrt(_row_means(tf.square(centered)) + epsilon)


def _row_means(x):
    """The means over the last axis, which is kept."""
    width = x.shape[-1]
    sums = tf.matmul(tf.reshape(x, (-1, width)), tf.ones((width, 1), x.dtype))
    return tf.reshape(sums, (*tf.unstack(tf.shape(x))[:-1], 1)) / width
