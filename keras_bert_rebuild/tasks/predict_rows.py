"""A model's outputs for rows of any length, in batches of similar length; safe to call from several threads."""

import threading
import weakref

import keras
import numpy as np

from keras_bert_rebuild.data.batches import BUCKETS, SHORT_TEXTS, input_arrays, lengths_up_to
from keras_bert_rebuild.data.labelled.length_buckets import bucket_batches
from keras_bert_rebuild.kernels import traits

# Keras's prediction is not thread-safe: on JAX a call donates the buffers of the model's variables, and a second call finds them
# deleted; on every backend the first call makes its function.
_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def predicted(model, inputs):
    """The output of `model.predict_on_batch` as a NumPy array, or a structure of several; other threads wait.

    Args:
        model: a Keras model.
        inputs: the inputs of a batch.
    """
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(model, threading.Lock())
    with lock:
        return keras.tree.map_structure(keras.ops.convert_to_numpy, model.predict_on_batch(inputs))


def filled_up(count, max_rows=None):
    """The indices of the rows of a batch, repeated up to a power of two, because every shape needs a program.

    Args:
        count: number of rows.
        max_rows: rows of a full batch, the limit of the power of two; None for no limit.

    Example:

    >>> filled_up(5).tolist(), filled_up(5, max_rows=6).tolist()
    ([0, 1, 2, 3, 4, 0, 1, 2], [0, 1, 2, 3, 4, 0])
    """
    power = 1 << (count - 1).bit_length()
    return np.arange(power if max_rows is None or count > max_rows else min(power, max_rows)) % count


def buckets_up_to(max_len):
    """The lengths that rows of texts are padded to; on JAX, which compiles a program for every length, there are fewer."""
    return lengths_up_to(max_len, BUCKETS if traits.compiles_each_shape() else SHORT_TEXTS)


def predict_batch(model, inputs, padding, length, max_rows=None):
    """A model's output for the rows of a batch, an array with a row for each.

    Args:
        model: the model, with one output.
        inputs, padding: as from `model_inputs`.
        length: the length that rows are padded to.
        max_rows: see `filled_up`.
    """
    count = len(inputs[0])
    rows = filled_up(count, max_rows)
    return predicted(model, input_arrays([[values[i] for i in rows] for values in inputs], length, padding))[:count]


def predict_rows(model, inputs, padding, *, max_len, batch_size=32, per_token=False, progress=None):
    """Predict rows, in batches of rows of similar length.

    Args:
        model: the model, with one output.
        inputs, padding: as from `model_inputs`.
        max_len: maximum number of tokens in a row.
        batch_size: rows of a batch.
        per_token: whether the model has an output for every token; outputs for padding are left out.
        progress: called with the number of finished rows and of all rows, after every batch.

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
