"""TensorFlow only: the host check as a step of a `tf.data.Dataset`."""

import tensorflow as tf


def checked_tf_dataset(dataset, check):
    """The same dataset, with every batch passed through `check` on the host.

    The check runs as a NumPy function inside the pipeline; its errors become `InvalidArgumentError` with the same text.
    """

    structure = dataset.element_spec

    def on_host(*arrays):
        check(tf.nest.pack_sequence_as(structure, list(arrays)))
        return True

    def step(*batch):
        # tf.data passes a tuple, even one of a single item, as separate arguments, and anything else as one.
        batch = batch if type(structure) is tuple else batch[0]
        with tf.control_dependencies([tf.numpy_function(on_host, tf.nest.flatten(batch), tf.bool)]):
            return tf.nest.map_structure(tf.identity, batch)

    return dataset.map(step)
