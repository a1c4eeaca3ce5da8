"""Gradients of look-ups as arrays."""

from keras import ops


def dense_gradients(gradients):
    """Gradients of which each is an array of the shape of its variable; None, where a variable has none, stays None.

    What a TensorFlow look-up gives as gradient (`tf.IndexedSlices`) names a row once for each time it was looked up. Keras squares
    these parts, for the second moment and for norms to clip by, where the square of their sum is meant.
    """
    return [ops.add(gradient, 0.0) if hasattr(gradient, "dense_shape") else gradient for gradient in gradients]
