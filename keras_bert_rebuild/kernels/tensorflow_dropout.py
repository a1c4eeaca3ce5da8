"""TensorFlow: dropout, and attention with dropout, with cheap random bits that are drawn twice and never stored.

Drawing numbers takes longer than dropping. Here TensorFlow's generator draws two words per row, and `row_hash` gives the bits of
the columns within the kernels that use them, which XLA compiles.
"""

import functools

import keras
import tensorflow as tf
from keras import ops

from keras_bert_rebuild.kernels.kernel import FORMULA, drops_probabilities, drops_some, kernel
from keras_bert_rebuild.kernels.row_hash import MIXING, gain_of, threshold
from keras_bert_rebuild.kernels.tensorflow_gradients import with_gradient
from keras_bert_rebuild.kernels.tensorflow_kernels import compile_by_xla, widened
from keras_bert_rebuild.layers.keras_layers import Dropout
from keras_bert_rebuild.layers.multi_head_self_attention import MultiHeadSelfAttention


def row_words(shape, seed):
    """Two random words for each row of an array, of which the first is odd: uint32 `(2, *shape[:-1], 1)`.

    Replicas of a `MirroredStrategy`, whose seeds are equal, draw independent words.

    Args:
        shape: shape of the array, numbers or scalars; the last one does not matter.
        seed: the `keras.random.SeedGenerator` to draw from, or two integers.
    """
    numbers = seed.next() if isinstance(seed, keras.random.SeedGenerator) else seed
    numbers = _replica_seed(tf.cast(numbers, "int32"))
    words = tf.random.stateless_uniform([2, *shape[:-1], 1], numbers, minval=None, maxval=None, dtype=tf.uint32)
    return tf.bitwise.bitwise_or(words, tf.reshape(tf.constant([1, 0], "uint32"), (2, *(1 for _ in shape))))


def _replica_seed(seed):
    """A different seed for each replica, derived from one; with only one replica, the seed itself."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    return tf.random.fold_in(seed, context.replica_id_in_sync_group)


def kept(words, columns, rate):
    """Which values are retained, bool in the shape of the array.

    Args:
        words: from `row_words`.
        columns: size of the last axis.
        rate: dropout rate, in (0, 1), rounded to a multiple of 2⁻³².
    """
    bits = tf.cast(tf.range(columns), "uint32") * words[0] + words[1]
    for shift, factor in MIXING:
        shifted = tf.bitwise.right_shift(bits, tf.constant(shift, "uint32"))
        bits = tf.bitwise.bitwise_xor(bits, shifted) * tf.constant(factor, "uint32")
    return bits >= tf.constant(threshold(rate), "uint32")


@kernel(Dropout.drop, "tensorflow", when=drops_some)
def drop_by_row_words(rest, layer, x):
    """Half of the time of dropout is random numbers; a hash of two words per row is recomputed in the kernel, not saved.

    Measured: Activations and dropout on processors
    """
    return drop(x, layer.rate, layer.seed_generator, layer.noise_shape)


def drop(x, rate, seed, noise_shape=None):
    """Dropout, whose gradient is the same dropout of the upstream gradient.

    Args:
        x: any tensor.
        rate: dropout rate, in (0, 1); retained values are divided by 1 − rate.
        seed: the `keras.random.SeedGenerator` to draw from, or two integers.
        noise_shape: the shape of the mask, which is broadcast; None in it for the size of the tensor; None for the tensor's shape.
    """
    x = tf.convert_to_tensor(x)
    sizes = (None,) * x.shape.rank if noise_shape is None else noise_shape
    words = row_words([tf.shape(x)[axis] if size is None else size for axis, size in enumerate(sizes)] or [1], seed)
    return _dropping(sizes[-1] if sizes else 1, rate)(x, words)


@functools.cache
def _dropping(columns, rate):
    """Dropout of a tensor with words, whose mask has that many columns; None for those of the tensor."""
    drop = lambda x, words: _drop(x, words, columns, rate)  # noqa: E731
    return with_gradient(lambda x, words: (drop(x, words), lambda upstream: (drop(upstream, words), None)))


@compile_by_xla
def _drop(x, words, columns, rate):
    keep = kept(words, tf.shape(x)[-1] if columns is None else columns, rate)
    return tf.cast(tf.reshape(_dropped(widened(x), keep, rate), tf.shape(x)), x.dtype)


@kernel(MultiHeadSelfAttention.attend, "tensorflow", when=drops_probabilities, passes=FORMULA)
def attention_with_dropout(rest, layer, query, key, value, mask, training=None):
    """Saves queries, keys, values and outputs; the graph saves four arrays of probabilities.

    Measured: Activations and dropout on processors
    """
    batch, length, heads, _ = ops.shape(query)
    words = row_words([batch, heads, length, ops.shape(key)[1]], layer.dropout.seed_generator)
    return attend_with_dropout(query, key, value, layer.visible(mask, query), words, layer.attention_dropout)


def attend_with_dropout(query, key, value, mask, words, rate):
    """softmax(Q Kᵀ / √K) V with a fraction of the probabilities dropped, the softmax in float32.

    Queries, keys, values, outputs and two numbers per query are saved for the backward pass; scores, probabilities and bits are
    recomputed. The sum over keys of probabilities times their gradients equals that of outputs times their gradients, so the
    backward pass needs no sum over keys.

    Args:
        query, key, value: `(batch, length, heads, width)`; there may be more keys than queries.
        mask: bool, broadcast to `(batch, heads, queries, keys)`; False where a key is not attended to.
        words: `(2, batch, heads, queries, 1)`, from `row_words`.
        rate: dropout rate, in (0, 1).

    Returns:
        `(batch, length, heads, width)`.

    Reference: Dao et al., 2022, appendix B.2 (https://arxiv.org/abs/2205.14135).
    """

    return _attending(rate)(query, key, value, mask, words)


@functools.cache
def _attending(rate):
    """`attend_with_dropout` at a rate."""

    @with_gradient
    def attend(query, key, value, mask, words):
        query, key, value = (_heads_first(x) for x in (query, key, value))
        dropped, maximum, factor = _forward(tf.matmul(query, key, transpose_b=True), mask, words, rate, query.shape[-1])
        outputs = _heads_first(tf.matmul(dropped, value))

        def gradients(upstream):
            means = _means(upstream, outputs)
            upstream = _heads_first(upstream)
            # Only when the backward pass runs; otherwise the graph optimizer would reuse the first scores, and so save them.
            with tf.control_dependencies([upstream]):
                scores = tf.matmul(tf.identity(query), tf.identity(key), transpose_b=True)
            of_dropped = tf.matmul(upstream, value, transpose_b=True)
            dropped, of_scores = _backward(scores, mask, words, rate, query.shape[-1], maximum, factor, means, of_dropped)
            of_inputs = (
                tf.matmul(of_scores, key),
                tf.matmul(of_scores, query, transpose_a=True),
                tf.matmul(dropped, upstream, transpose_a=True),
            )
            return *map(_heads_first, of_inputs), None, None

        return outputs, gradients

    return attend


def _heads_first(x):
    """`(batch, length, heads, width)` as `(batch, heads, length, width)`, and back."""
    return tf.transpose(x, (0, 2, 1, 3))


@compile_by_xla
def _forward(scores, mask, words, rate, width):
    """Probabilities after dropout, and of each query the maximum of its scores and one over the sum of their exponentials."""
    scaled = _scaled(scores, mask, width)
    maximum = tf.reduce_max(scaled, -1, keepdims=True)
    exponentials = tf.exp(scaled - maximum)
    factor = 1 / tf.reduce_sum(exponentials, -1, keepdims=True)
    keep = kept(words, tf.shape(scores)[-1], rate)
    return tf.cast(_dropped(exponentials * factor, keep, rate), scores.dtype), maximum, factor


@compile_by_xla
def _means(upstream, outputs):
    """For each query the mean of the gradients of its probabilities: `(batch, heads, queries, 1)`."""
    return _heads_first(tf.reduce_sum(widened(upstream) * widened(outputs), -1, keepdims=True))


@compile_by_xla
def _backward(scores, mask, words, rate, width, maximum, factor, means, of_dropped):
    """The probabilities after dropout again, and the gradient of the scores."""
    probabilities = tf.exp(_scaled(scores, mask, width) - maximum) * factor
    keep = kept(words, tf.shape(scores)[-1], rate)
    of_scores = probabilities * (_dropped(widened(of_dropped), keep, rate) - means) * width**-0.5
    return tf.cast(_dropped(probabilities, keep, rate), scores.dtype), tf.cast(of_scores, scores.dtype)


def _scaled(scores, mask, width):
    return tf.where(mask, widened(scores) * width**-0.5, -1e30)


def _dropped(x, keep, rate):
    return tf.where(keep, x * gain_of(rate), 0)
