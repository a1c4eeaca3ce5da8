"""What is masked as a whole: words, or spans of words."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import Stream, uniform

# From the name of a unit to its maximum number of words; None for a single token.
UNITS = {"token": None, "whole_word": 1, "ngram": 3}


def masking_units(keys, ids, maskable, tables, max_words):
    """The number of the unit that every token belongs to.

    A word is a token and the tokens after it that start with `##`. A span has n words with a probability proportional to 1 / n,
    and spans follow each other without gaps; a span ends early at a token that may not be masked.

    Args:
        keys: the keys of the examples, uint64 `(batch,)`.
        ids: token ids `(batch, length)`.
        maskable: True where a token may be chosen, `(batch, length)`.
        tables: `VocabularyTables`.
        max_words: maximum number of words of a span; with 1 every word is a unit.

    Returns:
        Numbers from 0, ascending, `(batch, length)`; they mean nothing where `maskable` is not True.

    Reference: Cui et al., 2019 (https://arxiv.org/abs/1906.08101), whole words; Lan et al., 2020, section 3.1, spans.
    """
    after_maskable = np.zeros_like(maskable)
    after_maskable[:, 1:] = maskable[:, :-1]
    starts = maskable & ~(tables.continues[ids] & after_maskable)
    if max_words > 1:
        words = np.cumsum(starts, axis=1) - 1
        span_starts = _span_starts(keys, ids.shape[1], max_words)
        starts &= np.take_along_axis(span_starts, np.maximum(words, 0), axis=1) | ~after_maskable
    return np.cumsum(starts, axis=1) - 1


def _span_starts(keys, words, max_words):
    """True at the words that start a span, `(batch, words)`."""
    weights = 1 / np.arange(1, max_words + 1)
    limits = np.cumsum(weights[:-1] / weights.sum())
    draws = uniform(keys, words, Stream.NGRAM)
    sizes = 1 + sum((draws >= limit).astype("int64") for limit in limits)
    starts = np.zeros((len(keys), words + 1), bool)
    starts[:, 0] = True
    np.put_along_axis(starts, np.minimum(np.cumsum(sizes, axis=1), words), True, axis=1)
    return starts[:, :words]
