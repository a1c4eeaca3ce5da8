"""What is masked as a whole: words, or runs of words."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import Stream, uniform

# Name of a unit, the most words that it has; None for a single token.
UNITS = {"token": None, "whole_word": 1, "ngram": 3}


def masking_units(keys, ids, maskable, tables, most_words):
    """Number every token with the unit that it belongs to.

    A word is a token and those behind it that start with `##`. Runs have n words with a probability proportional to 1 / n, and lie
    one behind the other; a run ends early where something stands that may not be masked.

    Args:
        keys: the keys of the examples, uint64 `(batch,)`.
        ids: token ids `(batch, length)`.
        maskable: True where a token may be chosen, `(batch, length)`.
        tables: `VocabularyTables`.
        most_words: words of a run at the most; with 1 every word is a unit.

    Returns:
        Numbers from 0 on, ascending, `(batch, length)`; they mean nothing where `maskable` is not True.

    Reference: Cui et al., 2019 (https://arxiv.org/abs/1906.08101), whole words; Lan et al., 2020, section 3.1, runs.
    """
    behind = np.zeros_like(maskable)
    behind[:, 1:] = maskable[:, :-1]
    starts = maskable & ~(tables.continues[ids] & behind)
    if most_words > 1:
        words = np.cumsum(starts, axis=1) - 1
        run_starts = _run_starts(keys, ids.shape[1], most_words)
        starts &= np.take_along_axis(run_starts, np.maximum(words, 0), axis=1) | ~behind
    return np.cumsum(starts, axis=1) - 1


def _run_starts(keys, words, most_words):
    """True at the words that start a run, `(batch, words)`."""
    weights = 1 / np.arange(1, most_words + 1)
    limits = np.cumsum(weights[:-1] / weights.sum())
    draws = uniform(keys, words, Stream.NGRAM)
    sizes = 1 + sum((draws >= limit).astype("int64") for limit in limits)
    starts = np.zeros((len(keys), words + 1), bool)
    starts[:, 0] = True
    np.put_along_axis(starts, np.minimum(np.cumsum(sizes, axis=1), words), True, axis=1)
    return starts[:, :words]
