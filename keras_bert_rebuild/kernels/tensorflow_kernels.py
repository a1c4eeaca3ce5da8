"""Functions compiled by XLA inside a TensorFlow graph that is not compiled.

On a CPU, oneDNN's matrix products are faster than XLA's, but everything between them is slower: TensorFlow passes over memory once
per operation, and saves what each operation needs for its gradient.
"""

import functools

import tensorflow as tf
from keras import ops

from keras_bert_rebuild.kernels import operations
from keras_bert_rebuild.kernels.kernel import activates_in_training, is_plain, is_product, kernel
from keras_bert_rebuild.kernels.tensorflow_gradients import with_gradient
from keras_bert_rebuild.kernels.traits import is_half
from keras_bert_rebuild.layers import products
from keras_bert_rebuild.layers.feed_forward import FeedForward

compile_by_xla = functools.partial(tf.function, jit_compile=True, autograph=False)


def widened(x):
    """The numbers of half precision in float32; others as they are."""
    return tf.cast(x, "float32") if is_half(x.dtype.name) else x


def in_float32(function):
    """A function of tensors with one result, computed in such a way that half precision does not round after each operation.

    On a processor XLA computes bfloat16 in float32, too, and converts to bfloat16 and back after every operation.
    """

    @functools.wraps(function)
    def wide(*inputs):
        outputs = function(*map(widened, inputs))
        return tf.cast(outputs, inputs[0].dtype)

    return wide


@kernel(FeedForward.activate, "tensorflow", when=activates_in_training)
def activate(rest, layer, x, training=None):
    """XLA computes in one pass over memory what the graph computes operation by operation.

    Measured: A pretraining step beside transformers and KerasHub
    """
    return compiled(layer.activation)(x)


@functools.cache
def compiled(function):
    """A function of tensors with one result as one kernel forward, and one backward that needs only the inputs."""
    function = in_float32(function)
    forward = compile_by_xla(function)

    @compile_by_xla
    def backward(upstream, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(*inputs)
        return tape.gradient(outputs, inputs, upstream)

    return with_gradient(lambda *inputs: (forward(*inputs), lambda upstream: backward(upstream, *inputs)))


@kernel(products.product, "tensorflow", when=is_product)
def product_of_rows(rest, dense, x, call=None):
    """TensorFlow fuses the bias with a product of two-dimensional arrays only, and sums its gradient in half precision.

    Measured: A pretraining step beside transformers and KerasHub
    """
    rows = ops.reshape(x, (-1, x.shape[-1]))
    if dense.bias is not None and is_half(dense.compute_dtype):
        rows = _product_with_bias(*(ops.cast(tensor, dense.compute_dtype) for tensor in (rows, dense.kernel, dense.bias)))
    else:
        rows = rest(dense, rows, call)
    return ops.reshape(rows, (*ops.shape(x)[:-1], rows.shape[-1]))


@with_gradient
def _product_with_bias(rows, kernel, bias):
    """rows · kernel + bias, whose bias has a gradient summed in float32."""

    def gradients(upstream):
        return tf.matmul(upstream, kernel, transpose_b=True), tf.matmul(rows, upstream, transpose_a=True), _bias_gradient(upstream)

    return tf.nn.bias_add(tf.matmul(rows, kernel), bias), gradients


def _bias_gradient(upstream):
    """The sum over the first axis, of half precision in float32, where TensorFlow loses most of each number."""
    return _sum_in_float32(upstream) if is_half(upstream.dtype.name) else tf.raw_ops.BiasAddGrad(out_backprop=upstream)


@compile_by_xla
def _sum_in_float32(x):
    return tf.cast(tf.reduce_sum(tf.cast(x, "float32"), 0), x.dtype)


@kernel(products.similarities, "tensorflow")
def similarities(rest, features, table):
    """TensorFlow computes the gradient of the table as that of its transpose, and then copies it.

    Measured: Activations and dropout on processors
    """
    return _similarities(features, table)


@with_gradient
def _similarities(features, table):

    def gradients(upstream):
        upstream = tf.cast(upstream, features.dtype)
        return tf.matmul(upstream, table), tf.matmul(upstream, features, transpose_a=True)

    return tf.cast(tf.matmul(features, table, transpose_b=True), "float32"), gradients


def _saves_less(layer, inputs, training=None, mask=None):
    plain = not layer.gated and layer.dropout_rate == 0 and is_plain(layer.output_dense)
    return plain and activates_in_training(layer, inputs, training)


@kernel(FeedForward.call, "tensorflow", when=_saves_less, passes=(FeedForward.inner, FeedForward.activate, FeedForward.outer))
def activated_product(rest, layer, inputs, training=None, mask=None):
    """Saves the input of the activation for the backward pass, but not its output.

    Measured: A pretraining step beside transformers and KerasHub
    """
    x = products.product(layer.intermediate_dense, inputs)
    weights = [ops.cast(weight, layer.compute_dtype) for weight in layer.output_dense.weights]  # the kernel, and a bias if any
    rows = _product_of_activation(layer.activation)(tf.reshape(x, (-1, x.shape[-1])), *weights)
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], tf.shape(weights[0])[1:]], 0))


@functools.cache
def _product_of_activation(activation):
    """activation(x) · kernel + bias of rows; XLA compiles the activation forward, and the activation and its gradient backward."""
    activation = in_float32(activation)
    forward = compile_by_xla(activation)

    @compile_by_xla
    def backward(x, upstream):
        with tf.GradientTape() as tape:
            tape.watch(x)
            activated = activation(x)
        return activated, tape.gradient(activated, x, upstream)

    @with_gradient
    def product(x, kernel, *bias):
        def gradients(upstream):
            activated, of_x = backward(x, tf.matmul(upstream, kernel, transpose_b=True))
            return of_x, tf.matmul(activated, upstream, transpose_a=True), *(_bias_gradient(upstream) for _ in bias)

        rows = tf.matmul(forward(x), kernel)
        return tf.nn.bias_add(rows, *bias) if bias else rows, gradients

    return product


@kernel(operations.bounded_scan, "tensorflow")
def bounded_scan(rest, step, carry, positions):
    """Keras's scan does not pass the maximum length of the loop to TensorFlow, without which XLA cannot differentiate it.

    Measured: none: without it the loss of a conditional random field does not compile
    """
    length = ops.shape(positions[0])[0]
    body = lambda i, *carry: (i + 1, *step(carry, [ops.take(of, i, axis=0) for of in positions]))  # noqa: E731
    return ops.while_loop(lambda i, *_: i < length, body, (0, *carry), maximum_iterations=length)[1:]


@kernel(operations.unwritten, "tensorflow")
def unwritten(rest, shape, dtype):
    """Zeros would take the memory of a variable until it is filled: this memory TensorFlow has allocated, but not written.

    Measured: Loading
    """
    return tf.raw_ops.Empty(shape=tf.constant(shape, tf.int32), dtype=tf.as_dtype(dtype), init=False)
