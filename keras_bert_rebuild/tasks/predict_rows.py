"""What a model answers to rows of any length, in batches of about the same length, also where several threads ask."""

import threading
import weakref

import keras
import numpy as np

from keras_bert_rebuild.data.length_batches import BUCKETS, SHORT_TEXTS, lengths_up_to
from keras_bert_rebuild.data.length_buckets import bucket_batches
from keras_bert_rebuild.data.model_inputs import input_arrays
from keras_bert_rebuild.kernels import traits

# Keras's prediction is not made for threads: on JAX it gives the buffers of the model's variables away during a call, and a second
# call finds them deleted; on every backend it makes its function in the first call.
_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_OF_LOCKS = threading.Lock()


def predicted(model, inputs):
    """What `model.predict_on_batch` puts out, as an array of NumPy or what holds several; other threads wait.

    Args:
        model: a Keras model.
        inputs: of a batch.
    """
    with _OF_LOCKS:
        lock = _LOCKS.setdefault(model, threading.Lock())
    with lock:
        return keras.tree.map_structure(keras.ops.convert_to_numpy, model.predict_on_batch(inputs))


def filled_up(count, most=None):
    """The numbers of the rows of a batch, some of them again, so that there are a power of two: every shape costs a program.

    Args:
        count: rows that there are.
        most: rows that a full batch has, at which the power ends; None for any.

    Example:

    >>> filled_up(5).tolist(), filled_up(5, most=6).tolist()
    ([0, 1, 2, 3, 4, 0, 1, 2], [0, 1, 2, 3, 4, 0])
    """
    power = 1 << (count - 1).bit_length()
    return np.arange(power if most is None or count > most else min(power, most)) % count


def buckets_up_to(max_len):
    """The lengths that rows of texts are padded to; on JAX, which compiles a program for every length, there are fewer."""
    return lengths_up_to(max_len, BUCKETS if traits.compiles_each_shape() else SHORT_TEXTS)


def predict_batch(model, inputs, padding, length, most=None):
    """What a model answers to the rows of a batch, an array with a row for each.

    Args:
        model: the model, with one output.
        inputs, padding: as from `model_inputs`.
        length: tokens that rows are padded to.
        most: as for `filled_up`.
    """
    count = len(inputs[0])
    rows = filled_up(count, most)
    return predicted(model, input_arrays([[values[i] for i in rows] for values in inputs], length, padding))[:count]


def predict_rows(model, inputs, padding, *, max_len, batch_size=32, per_token=False, progress=None):
    """Predict rows, each in a batch of rows of its length.

    Args:
        model: the model, with one output.
        inputs, padding: as from `model_inputs`.
        max_len: tokens of the longest row there may be.
        batch_size: rows of a batch.
        per_token: whether the model answers for every token; answers for padding are left out.
        progress: called with the rows done and all rows, after every batch.

    Returns:
        A list of float32 arrays, in the order of the rows.
    """
    lengths = [len(row) for row in inputs[0]]
    answers, done = [None] * len(lengths), 0
    for indexes, length in bucket_batches(lengths, batch_size, buckets_up_to(max_len)):
        outputs = predict_batch(model, [[values[i] for i in indexes] for values in inputs], padding, length, batch_size)
        for i, output in zip(indexes, outputs.astype("float32", copy=False), strict=True):
            answers[i] = output[: lengths[i]] if per_token else output
        done += len(indexes)
        if progress is not None:
            progress(done, len(lengths))
    return answers
