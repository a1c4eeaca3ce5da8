"""Passages of one corpus that are also in another one."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import keys

# Tokens hashed at a time: their numbers stay in the processor's cache.
_BLOCK = 1 << 17


def repeated_passages(corpus, other):
    """The numbers of the passages of a corpus that are also in another one, with the same ids.

    Passages are compared by hashes of 64 bits, so that nothing of the other corpus is held, however large it is. If two hashes
    collide, about once in 10¹⁸ pairs, a passage that is not repeated is included; a repeated one is never missed.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes; memory grows with the number of its passages.
        other: the same.

    Returns:
        An int64 array, ascending.

    Reference: Carter and Wegman, 1979, "Universal classes of hash functions": sums of ids times random numbers.
    """
    starts = [np.asarray(each.passage_starts) for each in (corpus, other)]
    longest = max(int(np.diff(each).max(initial=0)) for each in starts)
    weights = keys(0, 0, np.arange(longest))
    hashes = np.concatenate([np.zeros(0, "uint64"), *_hashes(corpus, starts[0], weights)])
    known, of_passage = np.unique(hashes, return_inverse=True)
    seen = np.zeros(len(known), bool)
    for found in _hashes(other, starts[1], weights):
        indexes = np.searchsorted(known, found)
        inside = indexes < len(known)
        indexes, found = indexes[inside], found[inside]
        seen[indexes[known[indexes] == found]] = True
    return np.flatnonzero(seen[of_passage])


def _hashes(corpus, starts, weights):
    """Yield the hashes of the passages, in order, some at a time: uint64."""
    first, last = 0, len(starts) - 1
    while first < last:
        stop = max(int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1, first + 1)
        begins = starts[first : stop + 1] - starts[first]
        positions = np.arange(begins[-1])
        ids = corpus.ids_at(positions + starts[first]).astype("uint64")
        offsets = positions - np.repeat(begins[:-1], np.diff(begins))
        # One is added, or an id of 0 at the end would change nothing.
        sums = np.cumsum((ids + np.uint64(1)) * weights[offsets], dtype="uint64")
        yield np.diff(np.concatenate([np.zeros(1, "uint64"), sums])[begins])
        first = stop
