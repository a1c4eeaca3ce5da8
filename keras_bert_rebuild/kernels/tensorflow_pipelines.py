"""Pipelines of `tf.data`: one with a check of every batch, and those that end when their last batch has been read.

A thread of TensorFlow tunes the buffers and threads of a pipeline while it runs. It sleeps for 10 ms, then 20, 40 and so on up to a
minute, and who drops the pipeline often waits until it wakes up: it is notified before the flag that it then checks is set. So an
epoch of 3 s can take 5.1 s, the sum of the first nine sleeps. Keras reads every `PyDataset` through such a pipeline.

TensorFlow never drops the Python functions of a pipeline, nor what they refer to.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

# Batches that a pipeline holds. A dataset with threads of its own makes more of them ahead.
AHEAD = 2


def epochs_of(data: Any, first: Sequence[Any]) -> tf.data.Dataset:
    """A dataset each of whose iterations is an epoch of a `PyDataset`; no thread tunes it.

    Args:
        data: a `PyDataset` with an end and a method `epoch`, a generator of a number of batches, which have one structure of
            arrays. As in Keras, the number is that of the first epoch.
        first: one batch or two. As in Keras, dimensions that differ between them may have any size, and so may the first
            dimension of every array.
    """

    def spec(array, *second):
        shape = (None, *(size if all(other.shape[i] == size for other in second) else None for i, size in _sizes(array)))
        return tf.TensorSpec(shape, keras.backend.standardize_dtype(array.dtype))

    count, signature = data.num_batches, keras.tree.map_structure(spec, *first)
    reference: Any = weakref.ref(data)
    dataset = tf.data.Dataset.from_generator(lambda: reference().epoch(count), output_signature=signature)
    dataset.data = data  # kept as long as the dataset, as well as those made from it and their iterators
    return not_tuned(dataset.apply(tf.data.experimental.assert_cardinality(count)).prefetch(AHEAD))


def not_tuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, which no thread tunes."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _sizes(array):
    return list(enumerate(array.shape))[1:]


def checked_tf_dataset(dataset, check):
    """A dataset whose batches are all passed through `check` on the host.

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
