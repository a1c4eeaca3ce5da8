"""TensorFlow only: the host check as a step of a `tf.data.Dataset`."""

import tensorflow as tf

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one


def checked_tf_dataset(dataset, check):
    """The same dataset, with every batch passed through `check` on the host.

    The check runs as a NumPy function inside the pipeline; its errors become `InvalidArgumentError` with the same text.
    """

    def step(*batch):
        # tf.data passes a single array or structure unchanged, and a tuple as separate arguments.
        flat = tf.nest.flatten(batch)

        def on_host(*arrays):
            check(tf.nest.pack_sequence_as(batch, list(arrays)))
            return True

        with tf.control_dependencies([tf.numpy_function(on_host, flat, tf.bool)]):
            checked = tf.nest.map_structure(tf.identity, batch)
        return bare_if_one(checked)

    return dataset.map(step)
