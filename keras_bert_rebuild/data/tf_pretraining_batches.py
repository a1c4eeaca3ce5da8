"""TensorFlow only: pretraining batches as a `tf.data.Dataset`."""


def tf_pretraining_batches(batches, epochs=1):
    """The same numbers as of a `PretrainingBatches`, made by TensorFlow's threads while a model trains.

    Args:
        batches: a `PretrainingBatches`; the dataset begins with its epoch.
        epochs: how many epochs the dataset has, one behind the other; None for no end. With more than one, tell `fit` its
            `steps_per_epoch`.

    Returns:
        A `tf.data.Dataset` of the batches in their order, with static shapes.
    """
    import tensorflow as tf

    steps, start = len(batches), batches.epoch
    example = batches.batch(start, 0)
    shapes = [array.shape for array in tf.nest.flatten(example)]

    def on_host(number):
        epoch, index = divmod(int(number), steps)
        return tf.nest.flatten(batches.batch(start + epoch, index))

    def make(number):
        made = tf.numpy_function(on_host, [number], [tf.int32] * len(shapes))
        for tensor, shape in zip(made, shapes, strict=True):
            tensor.set_shape(shape)
        return tf.nest.pack_sequence_as(example, made)

    numbers = tf.data.Dataset.counter(dtype=tf.int64) if epochs is None else tf.data.Dataset.range(epochs * steps)
    return numbers.map(make, num_parallel_calls=1, deterministic=True).prefetch(tf.data.AUTOTUNE)
