"""Batches of examples of about the same length, chosen within a window of the endless sequence of examples."""

import numpy as np

from keras_bert_rebuild.data.length_batches import divided
from keras_bert_rebuild.data.random_numbers import Stream, uniform_at

# Batches of a window: enough to tell lengths apart, few enough that one batch can be had at once.
WINDOW = 32


def length_windows(sizes, batch_size, lengths, key):
    """Divide the examples of a window into batches.

    The examples are sorted by size and divided; the batches come in random order. Every example is in one batch.

    Args:
        sizes: tokens of every example, `(batches * batch_size,)`.
        batch_size: examples of a batch.
        lengths: lengths to pad to, ascending; the last holds every example.
        key: the key of the draws, uint64.

    Returns:
        For every batch the numbers of its examples, ascending `(batch_size,)`, and the length it is padded to.
    """
    batches = divided(np.argsort(sizes, kind="stable"), sizes, lengths, batch_size)
    order = np.argsort(uniform_at(key, np.arange(len(batches)), Stream.MEMBERS), kind="stable")
    return [(np.sort(members), length) for members, length in (batches[i] for i in order)]
