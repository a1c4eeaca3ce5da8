"""Batches of examples of about the same length, chosen within a window of the endless sequence of examples."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import Stream, uniform_at

# Batches per window: enough to separate lengths, few enough that a single batch is made quickly.
WINDOW = 32


def length_windows(sizes, batch_size, lengths, key):
    """Divide the examples of a window into batches.

    The examples are sorted by size and divided; the batches are in random order. Every example is in one batch.

    Args:
        sizes: tokens of every example, `(batches * batch_size,)`.
        batch_size: examples per batch.
        lengths: lengths to pad to, ascending; every example fits into the last.
        key: the key of the draws, uint64.

    Returns:
        For every batch the numbers of its examples, ascending `(batch_size,)`, and the length it is padded to.
    """
    by_size = np.argsort(sizes, kind="stable").reshape(-1, batch_size)
    order = np.argsort(uniform_at(key, np.arange(len(by_size)), Stream.MEMBERS), kind="stable")
    return [(np.sort(members), int(lengths[np.searchsorted(lengths, sizes[members].max())])) for members in by_size[order]]
