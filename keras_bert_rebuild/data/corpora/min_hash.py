"""MinHash signatures of token ids, and bands of signatures (locality-sensitive hashing).

A text is the set of its shingles, three consecutive words each; the similarity of two texts is the Jaccard similarity of their
sets, |A ∩ B| / |A ∪ B|. A signature has, for every hash function, the minimum over the shingles; two texts agree in each value with
a probability equal to their similarity.

References: Broder, 1997, "On the resemblance and containment of documents"; Leskovec et al., 2020, "Mining of massive datasets",
section 3.4 (bands).
"""

import math

import numpy as np

from keras_bert_rebuild.data.random_numbers import keys

SHINGLE_WORDS = 3

# Maximum length of a signature, and minimum probability that a pair at the threshold shares a band.
_VALUES = 128
_FOUND = 0.99

# The purpose of a key: the first number that `keys` mixes in.
_WORDS, _SHINGLES, _FACTORS, _PASSAGES, _BANDS = range(5)


def band_shape(similarity):
    """How signatures are divided into bands for a threshold: `(bands, rows)`.

    The maximum number of rows, so that few dissimilar pairs share a band by chance, for which a signature has at most 128 values
    and a pair at the threshold shares a band with a probability of at least 99 %.

    Args:
        similarity: the threshold, in [0.5, 1).

    Example:

    >>> band_shape(0.8)
    (16, 6)
    """
    shapes = ((math.ceil(math.log(1 - _FOUND) / math.log(1 - similarity**rows)), rows) for rows in range(1, 33))
    return max((shape for shape in shapes if math.prod(shape) <= _VALUES), key=lambda shape: shape[1])


def share_a_band(similarity, bands, rows):
    """The probability that two texts of the given similarity share a band."""
    return 1 - (1 - similarity**rows) ** bands


def continuations(vocabulary):
    """Whether a token continues a word, bool `(tokens,)`."""
    return np.array([token.startswith("##") for token in vocabulary], bool)


def word_counts(ids, passage_starts, continues):
    """The number of words of every passage, int64 `(passages,)`.

    Args:
        ids: token ids, `(tokens,)`.
        passage_starts: offset of every passage, and last the number of tokens, strictly ascending from 0, `(passages + 1,)`.
        continues: from `continuations`.
    """
    firsts = _word_starts(ids, passage_starts, continues)
    return np.diff(np.searchsorted(firsts, passage_starts))


def shingles(ids, passage_starts, continues):
    """The hashes of the shingles of passages.

    Shingles do not cross passages, so those of a document are the union of those of its passages. A passage of fewer than three
    words is one shingle.

    Args:
        ids, passage_starts, continues: see `word_counts`.

    Returns:
        The hashes, uint64 `(shingles,)`, and the offset of every passage's first one, and last their number, `(passages + 1,)`.
    """
    firsts = _word_starts(ids, passage_starts, continues)
    if not len(firsts):
        return np.zeros(0, "uint64"), np.zeros(len(passage_starts), "int64")
    words = keys(0, _WORDS, sums_of_products(ids, firsts, np.append(firsts[1:], len(ids))))
    ends = np.searchsorted(firsts, passage_starts)
    left = np.repeat(ends[1:], np.diff(ends)) - np.arange(len(words))  # words from here to the end of the passage
    weights = keys(0, _FACTORS, np.arange(SHINGLE_WORDS))
    sums = words * weights[0]
    for ahead in range(1, SHINGLE_WORDS):
        inside = np.flatnonzero(left > ahead)
        sums[inside] += words[inside + ahead] * weights[ahead]
    starts_one = left >= SHINGLE_WORDS
    starts_one[ends[:-1]] = True
    return keys(0, _SHINGLES, sums[starts_one]), np.concatenate([[0], np.cumsum(starts_one)])[ends]


def signatures(hashes, starts, count):
    """The signatures of texts, uint32 `(texts, count)`.

    Args:
        hashes, starts: their shingles, see `shingles`; every text has at least one.
        count: length of a signature; each value has its own hash function, multiply-shift with an odd 64-bit factor.

    Reference: Dietzfelbinger et al., 1997, "A reliable randomized algorithm for the closest-pair problem".
    """
    minima = np.empty((len(starts) - 1, count), "uint32")
    if not len(minima):
        return minima
    factors = keys(0, _FACTORS, np.arange(count) + SHINGLE_WORDS) | np.uint64(1)
    for i, factor in enumerate(factors):
        minima[:, i] = np.minimum.reduceat(((hashes * factor) >> np.uint64(32)).astype("uint32"), starts[:-1])
    return minima


def band_keys(signature, bands, rows):
    """The key of every band of the signatures, uint64 `(bands, texts)`; equal bands have equal keys."""
    weights = keys(0, _FACTORS, np.arange(bands * rows)) | np.uint64(1)
    weighted = (signature.astype("uint64") * weights).reshape(len(signature), bands, rows).sum(axis=2, dtype="uint64")
    return keys(0, _BANDS, weighted.T)


def passage_hashes(ids, passage_starts):
    """A hash of the ids of every passage, uint64 `(passages,)`."""
    return keys(0, _PASSAGES, sums_of_products(ids, passage_starts[:-1], passage_starts[1:]))


def sums_of_products(numbers, starts, ends):
    """For each of consecutive spans, Σ (number + 1) · (random factor of its index in the span), modulo 2⁶⁴.

    Args:
        numbers: integers `(count,)`.
        starts, ends: the spans, `(spans,)`; each begins where the previous one ends, the first at 0, and none is empty.

    Reference: Carter and Wegman, 1979, "Universal classes of hash functions".
    """
    if not len(starts):
        return np.zeros(0, "uint64")
    sizes = ends - starts
    offsets = np.arange(len(numbers)) - np.repeat(starts, sizes)
    weights = keys(0, _FACTORS, np.arange(sizes.max()))
    # One is added; otherwise zeros at the end of a span would not change the sum.
    return np.add.reduceat((numbers.astype("uint64") + np.uint64(1)) * weights[offsets], starts)


def similarity_of(first, second):
    """The Jaccard similarity of two sets of shingles, each sorted and without repetitions."""
    both = len(np.intersect1d(first, second, assume_unique=True))
    return both / (len(first) + len(second) - both)


def _word_starts(ids, passage_starts, continues):
    begins = ~continues[ids]
    begins[passage_starts[:-1]] = True
    return np.flatnonzero(begins)
