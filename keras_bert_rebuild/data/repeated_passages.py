"""Passages of one corpus that another one has, too."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import keys

# Tokens that are looked at together: their numbers stay in the processor's cache.
_BLOCK = 1 << 17


def repeated_passages(corpus, other):
    """The numbers of the passages of a corpus that stand in another one, too, id by id.

    Passages are compared by hashes of 64 bits, so that nothing is kept of the other corpus, however large it is. Where two passages
    had the same by chance, about once in 10¹⁸ pairs, one that is not repeated would be among them; none that is can be missing.

    Args:
        corpus: a `TokenCorpus`, or anything that has its attributes; memory grows with the number of its passages.
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
        places = np.searchsorted(known, found)
        inside = places < len(known)
        places, found = places[inside], found[inside]
        seen[places[known[places] == found]] = True
    return np.flatnonzero(seen[of_passage])


def _hashes(corpus, starts, weights):
    """Yield the hashes of the passages, in their order, some at a time: uint64."""
    first, last = 0, len(starts) - 1
    while first < last:
        stop = max(int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1, first + 1)
        begins = starts[first : stop + 1] - starts[first]
        positions = np.arange(begins[-1])
        ids = corpus.ids_at(positions + starts[first]).astype("uint64")
        places = positions - np.repeat(begins[:-1], np.diff(begins))
        # One is added, or an id of 0 at the end would change nothing.
        sums = np.cumsum((ids + np.uint64(1)) * weights[places], dtype="uint64")
        yield np.diff(np.concatenate([np.zeros(1, "uint64"), sums])[begins])
        first = stop
