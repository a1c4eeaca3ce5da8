"""Functions compiled by XLA inside a TensorFlow graph that is not compiled.

On a CPU, oneDNN's matrix products are faster than XLA's, but everything between them is slower: TensorFlow passes over memory once
per operation, and saves what each operation needs for its gradient.
"""

import functools

import tensorflow as tf
from keras import ops

from keras_bert_rebuild.kernels.sequences import visible_pairs
from keras_bert_rebuild.kernels.traits import is_half

compile_by_xla = functools.partial(tf.function, jit_compile=True, autograph=False)


def compiled(function):
    """The same function of tensors with one result: one kernel forward, and one backward that needs only the inputs."""
    forward = compile_by_xla(function)

    @compile_by_xla
    def backward(upstream, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(*inputs)
        return tape.gradient(outputs, inputs, upstream)

    @tf.custom_gradient
    def kernel(*inputs):
        return forward(*inputs), lambda upstream: backward(upstream, *inputs)

    return kernel


def normalize(x, gamma, beta, axis, epsilon):
    """`kernels.layer_normalization` in one kernel forward and one backward."""
    return _norm_kernel(axis, epsilon)(x, gamma, beta)


@functools.cache
def _norm_kernel(axis, epsilon):
    return compiled(lambda x, gamma, beta: ops.layer_normalization(x, gamma, beta, axis, epsilon))


def product_of_rows(dense, x, call):
    """The output of a `Dense` for `(..., width)`, computed as a product of rows, by `call` unless that needs another gradient."""
    rows = ops.reshape(x, (-1, x.shape[-1]))
    if dense.bias is not None and is_half(dense.compute_dtype):
        rows = _product_with_bias(*(ops.cast(tensor, dense.compute_dtype) for tensor in (rows, dense.kernel, dense.bias)))
    else:
        rows = call(rows)
    return ops.reshape(rows, (*ops.shape(x)[:-1], rows.shape[-1]))


@tf.custom_gradient
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
    forward, backward = _activation_kernels(activation)

    @tf.custom_gradient
    def product(x, kernel, *bias):
        def gradients(upstream):
            activated, of_x = backward(x, tf.matmul(upstream, kernel, transpose_b=True))
            return of_x, tf.matmul(activated, upstream, transpose_a=True), *(_bias_gradient(upstream) for _ in bias)

        rows = tf.matmul(forward(x), kernel)
        return tf.nn.bias_add(rows, *bias) if bias else rows, gradients

    rows = product(tf.reshape(x, (-1, x.shape[-1])), kernel, *(() if bias is None else (bias,)))
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], tf.shape(kernel)[1:]], 0))


@functools.cache
def _activation_kernels(activation):
    """What `activated_product` runs between its products: the activation forward; the activation and its gradient backward."""

    @compile_by_xla
    def backward(x, upstream):
        with tf.GradientTape() as tape:
            tape.watch(x)
            activated = activation(x)
        return activated, tape.gradient(activated, x, upstream)

    return compile_by_xla(activation), backward


def bounded_scan(step, carry, positions):
    """`kernels.bounded_scan` as a loop with a maximum length."""
    length = ops.shape(positions[0])[0]
    body = lambda i, *carry: (i + 1, *step(carry, [ops.take(of, i, axis=0) for of in positions]))  # noqa: E731
    return ops.while_loop(lambda i, *_: i < length, body, (0, *carry), maximum_iterations=length)[1:]


def drop(x, rate, seed, noise_shape=None):
    """Dropout, whose gradient is the same dropout of the upstream gradient.

    Args:
        x: any tensor.
        rate: dropout rate, in (0, 1), rounded to a multiple of 1/65,536; retained values are divided by 1 − rate.
        seed: two integers, as from `keras.random.SeedGenerator.next`.
        noise_shape: the shape of the mask, which is broadcast; None in it for the size of the tensor; None for the tensor's shape.
    """
    shape = tf.shape(x)
    if noise_shape is not None:
        shape = [shape[i] if size is None else size for i, size in enumerate(noise_shape)]
    keep, gain = draw(shape, rate, seed)

    @tf.custom_gradient
    def dropped(x):
        return _drop(x, keep, gain), lambda upstream: _drop(upstream, keep, gain)

    return dropped(x)


def draw(shape, rate, seed):
    """Which values are retained, bool in the given shape, and the factor of retained values. For the arguments see `drop`.

    Half of the time of dropout is random numbers, for which 16 bits are enough. Replicas of a `MirroredStrategy`, whose seeds are
    equal, draw independent numbers.
    """
    threshold = min(round(rate * 2**16), 2**16 - 1)
    count = tf.reduce_prod(shape)
    seed = _of_replica(tf.cast(seed, "int32"))
    bits = tf.random.stateless_uniform([(count + 3) // 4], seed, minval=None, maxval=None, dtype=tf.uint64)
    numbers = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:count]
    return tf.reshape(numbers >= tf.constant(threshold, tf.uint16), shape), tf.constant(1 / (1 - threshold / 2**16), "float32")


def _of_replica(seed):
    """A different seed for each replica, derived from one; with only one replica, the seed itself."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    return tf.random.fold_in(seed, context.replica_id_in_sync_group)


@compile_by_xla
def _drop(x, keep, gain):
    return tf.cast(_dropped(tf.cast(x, "float32"), keep, gain), x.dtype)


def attention_with_dropout(query, key, value, mask, causal, rate, seed):
    """`attend_with_dropout` with a mask drawn at a rate from a seed, as in `drop`."""
    batch, length, heads, _ = ops.shape(query)
    keep, gain = draw((batch, heads, length, ops.shape(key)[1]), rate, seed)
    return attend_with_dropout(query, key, value, visible_pairs(mask, causal), keep, gain)


def attend_with_dropout(query, key, value, mask, keep, gain):
    """softmax(Q Kᵀ / √K) V with dropout of the probabilities and the softmax in float32.

    Queries, keys, values and `keep` are saved for the backward pass; the probabilities are recomputed.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries.
        mask: bool, broadcast to `(batch, heads, queries, keys)`; False where a key is not attended to.
        keep, gain: as from `draw`, `(batch, heads, queries, keys)` and a number.

    Returns:
        `(batch, length, heads, width)`.
    """
    query, key, value = (tf.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    scale = tf.constant(query.shape[-1] ** -0.5)

    @tf.custom_gradient
    def attend(query, key, value):
        scores = tf.matmul(query, key, transpose_b=True)
        outputs = tf.matmul(_dropped_probabilities(scores, mask, keep, scale, gain), value)

        def gradients(upstream):
            # Only when the backward pass runs; otherwise the graph optimizer would reuse the first scores, and so save them.
            with tf.control_dependencies([upstream]):
                scores = tf.matmul(tf.identity(query), tf.identity(key), transpose_b=True)
            of_dropped = tf.matmul(upstream, value, transpose_b=True)
            dropped, of_scores = _backward(scores, mask, keep, scale, gain, of_dropped)
            return (
                tf.matmul(of_scores, key),
                tf.matmul(of_scores, query, transpose_a=True),
                tf.matmul(dropped, upstream, transpose_a=True),
            )

        return outputs, gradients

    return tf.transpose(attend(query, key, value), (0, 2, 1, 3))


@compile_by_xla
def _dropped_probabilities(scores, mask, keep, scale, gain):
    return tf.cast(_dropped(_probabilities(scores, mask, scale), keep, gain), scores.dtype)


@compile_by_xla
def _backward(scores, mask, keep, scale, gain, of_dropped):
    """Recompute the probabilities after dropout, and the gradient of the scores."""
    probabilities = _probabilities(scores, mask, scale)
    upstream = _dropped(tf.cast(of_dropped, "float32"), keep, gain)
    of_scores = probabilities * (upstream - tf.reduce_sum(upstream * probabilities, -1, keepdims=True)) * scale
    return tf.cast(_dropped(probabilities, keep, gain), scores.dtype), tf.cast(of_scores, scores.dtype)


def _probabilities(scores, mask, scale):
    return tf.nn.softmax(tf.where(mask, tf.cast(scores, "float32") * scale, -1e30))


def _dropped(x, keep, gain):
    return tf.where(keep, x * gain, 0.0)


def unwritten(shape, dtype):
    """A tensor whose memory TensorFlow has allocated but not written."""
    return tf.raw_ops.Empty(shape=tf.constant(shape, tf.int32), dtype=tf.as_dtype(dtype), init=False)
