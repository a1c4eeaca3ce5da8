"""Values of variables that are loaded, on TensorFlow."""

import tensorflow as tf


def tensorflow_unwritten(shape, dtype):
    """A tensor whose memory TensorFlow has asked the system for and not written."""
    return tf.raw_ops.Empty(shape=tf.constant(shape, tf.int32), dtype=tf.as_dtype(dtype), init=False)
