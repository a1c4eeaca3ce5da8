"""Functions compiled by XLA inside a TensorFlow graph that is not compiled.

On a CPU, oneDNN's matrix products are faster than XLA's, but everything between them is slower: TensorFlow passes over memory once
per operation, and saves what each operation needs for its gradient.
"""

import functools

import tensorflow as tf
from keras import ops

from keras_bert_rebuild.kernels.tensorflow_gradients import with_gradient
from keras_bert_rebuild.kernels.traits import is_half

compile_by_xla = functools.partial(tf.function, jit_compile=True, autograph=False)


def widened(x):
    """The numbers of half precision in float32; others as they are."""
    return tf.cast(x, "float32") if is_half(x.dtype.name) else x


def in_float32(function):
    """The same function of tensors with one result, which half precision does not round after each operation.

    On a processor XLA computes bfloat16 in float32, too, and converts to bfloat16 and back after every operation.
    """

    @functools.wraps(function)
    def wide(*inputs):
        found = function(*map(widened, inputs))
        return tf.cast(found, inputs[0].dtype)

    return wide


def compiled(function):
    """The same function of tensors with one result: one kernel forward, and one backward that needs only the inputs."""
    function = in_float32(function)
    forward = compile_by_xla(function)

    @compile_by_xla
    def backward(upstream, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(*inputs)
        return tape.gradient(outputs, inputs, upstream)

    return with_gradient(lambda *inputs: (forward(*inputs), lambda upstream: backward(upstream, *inputs)))


def product_of_rows(dense, x, call):
    """The output of a `Dense` for `(..., width)`, computed as a product of rows, by `call` unless that needs another gradient."""
    rows = ops.reshape(x, (-1, x.shape[-1]))
    if dense.bias is not None and is_half(dense.compute_dtype):
        rows = _product_with_bias(*(ops.cast(tensor, dense.compute_dtype) for tensor in (rows, dense.kernel, dense.bias)))
    else:
        rows = call(rows)
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


@with_gradient
def similarities(features, table):
    """features · tableᵀ, float32, whose gradient of the table is computed in the layout of the table, not transposed afterwards."""

    def gradients(upstream):
        upstream = tf.cast(upstream, features.dtype)
        return tf.matmul(upstream, table), tf.matmul(upstream, features, transpose_a=True)

    return tf.cast(tf.matmul(features, table, transpose_b=True), "float32"), gradients


def activated_product(activation, x, kernel, bias=None):
    """activation(x) · kernel + bias, saving x for the backward pass, but not activation(x).

    Args:
        activation: a function of a tensor, written in `keras.ops`.
        x: `(..., inputs)`.
        kernel: `(inputs, outputs)`.
        bias: `(outputs,)` or None.

    Returns:
        `(..., outputs)`.
    """
    product = _product_of_activation(activation)
    rows = product(tf.reshape(x, (-1, x.shape[-1])), kernel, *(() if bias is None else (bias,)))
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], tf.shape(kernel)[1:]], 0))


@functools.cache
def _product_of_activation(activation):
    """`activated_product` of rows; XLA compiles the activation forward, and the activation and its gradient backward."""
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


def bounded_scan(step, carry, positions):
    """`kernels.bounded_scan` as a loop with a maximum length."""
    length = ops.shape(positions[0])[0]
    body = lambda i, *carry: (i + 1, *step(carry, [ops.take(of, i, axis=0) for of in positions]))  # noqa: E731
    return ops.while_loop(lambda i, *_: i < length, body, (0, *carry), maximum_iterations=length)[1:]


def unwritten(shape, dtype):
    """A tensor whose memory TensorFlow has allocated but not written."""
    return tf.raw_ops.Empty(shape=tf.constant(shape, tf.int32), dtype=tf.as_dtype(dtype), init=False)
