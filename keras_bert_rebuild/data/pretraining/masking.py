"""Masked language modelling: which tokens, words or spans are masked, and what replaces them."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import Stream, below, bits, uniform, uniform_at

# Name of a unit to its maximum number of words; None for a single token.
UNITS = {"token": None, "whole_word": 1, "ngram": 3, "span": 5}


def masking_units(keys, ids, maskable, tables, max_words):
    """The index of the unit that every token belongs to.

    A word is a token and the tokens after it that start with `##`. A span has n words with probability proportional to 1 / n;
    spans are contiguous, and end early at a token that may not be masked.

    Args:
        keys: the keys of the examples, uint64 `(batch,)`.
        ids: token ids `(batch, length)`.
        maskable: True at tokens that may be masked, `(batch, length)`.
        tables: `VocabularyTables`.
        max_words: maximum number of words of a span; 1 for whole words.

    Returns:
        Integers from 0, ascending, `(batch, length)`; undefined where `maskable` is False.

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


_COLUMNS = np.uint64(2**20 - 1)


def mask_tokens(
    keys, ids, maskable, tables, max_predictions, unit="token", mask_rate=0.15, mask_mask_rate=0.8, mask_random_rate=0.1
):
    """Select positions to predict and replace their tokens.

    In every example, `mask_rate` of the maskable positions are selected, rounded, at least one and at most `max_predictions`. Units
    of several tokens are selected in random order, skipping those that would exceed that number; if every unit would, the number is
    raised to the length of the shortest unit, unless that exceeds `max_predictions`. Replacements are drawn per token.

    Args:
        keys: the keys of the examples, uint64 `(batch,)`.
        ids: token ids `(batch, length)`.
        maskable: True at tokens that may be selected, `(batch, length)`; never at special tokens.
        tables: `VocabularyTables`.
        max_predictions: maximum number of selected positions per example.
        unit: what is masked as a whole, a key of `masking_units.UNITS`: "token", "whole_word", "ngram" or "span".
        mask_rate: fraction of the maskable positions, in [0, 1].
        mask_mask_rate: rate, among the selected, of tokens replaced by `[MASK]`.
        mask_random_rate: rate, among the selected, of tokens replaced by a random, not special token; the rest are unchanged.

    Returns:
        The ids with replacements, and 1 at selected positions, else 0, both int32 `(batch, length)`.

    Reference: Devlin et al., 2019, section 3.1 and appendix A.1; `create_masked_lm_predictions` of google-research/bert.
    """
    maskable = maskable & ~tables.special[ids]
    available = maskable.sum(axis=1)
    wanted = np.minimum(np.maximum(np.rint(available * mask_rate).astype(int), 1), np.minimum(max_predictions, available))
    if UNITS[unit] is None:
        predicted = _random_tokens(keys, maskable, wanted)
    else:
        predicted = _random_units(keys, masking_units(keys, ids, maskable, tables, UNITS[unit]), maskable, wanted, max_predictions)
    masked = np.array(ids, "int32")
    rows, columns = np.nonzero(predicted)
    how = uniform_at(keys[rows], columns, Stream.REPLACEMENT)
    drawn = tables.replacements[below(uniform_at(keys[rows], columns, Stream.REPLACEMENT_ID), len(tables.replacements))]
    original_or_drawn = np.where(how < mask_mask_rate + mask_random_rate, drawn, masked[rows, columns])
    masked[rows, columns] = np.where(how < mask_mask_rate, tables.mask_id, original_or_drawn)
    return masked, predicted.astype("int32")


def factorisation_order(keys, predicted):
    """A random permutation of the selected tokens of every row, the order in which XLNet predicts them.

    Args:
        keys: the keys of the examples, uint64 `(batch,)`.
        predicted: 1 at tokens to predict, `(batch, length)`.

    Returns:
        Ranks from 1 at the selected tokens, 0 elsewhere, int32 `(batch, length)`.

    Reference: Yang et al., 2019, section 2.3 (https://arxiv.org/abs/1906.08237).
    """
    draws = _sort_keys(keys, predicted == 1, Stream.FACTORISATION)
    return np.where(predicted == 1, np.argsort(np.argsort(draws, axis=1), axis=1) + 1, 0).astype("int32")


def _random_tokens(keys, candidates, wanted):
    """True at `wanted` candidates of every row."""
    draws = _sort_keys(keys, candidates)
    last = np.take_along_axis(np.sort(draws, axis=1), np.maximum(wanted - 1, 0)[:, None], axis=1)
    return (draws <= last) & candidates & (wanted > 0)[:, None]


def _random_units(keys, units, maskable, wanted, maximum):
    """True at the tokens of units selected in random order, at most `wanted` tokens per row."""
    batch, length = units.shape
    cells = (units + np.arange(batch)[:, None] * length)[maskable]
    sizes = np.bincount(cells, minlength=batch * length).reshape(batch, length)
    shortest = np.where(sizes > 0, sizes, length).min(axis=1, initial=length)
    left = np.minimum(np.maximum(wanted, shortest), maximum)[:, None]
    order = (np.sort(_sort_keys(keys, sizes > 0), axis=1) & _COLUMNS).astype("int64")[
        :, : int((sizes > 0).sum(axis=1).max(initial=0))
    ]
    sizes = np.take_along_axis(sizes, order, axis=1)
    taken, open_ = np.zeros(sizes.shape, bool), sizes > 0
    while True:
        # Select all units before the first that does not fit; neither it nor longer ones will fit later.
        open_ &= sizes <= left
        now = open_ & (np.cumsum(sizes * open_, axis=1) <= left)
        if not now.any():
            break
        taken |= now
        open_ &= ~now
        left = left - (sizes * now).sum(axis=1, keepdims=True)
    by_unit = np.zeros((batch, length), bool)
    np.put_along_axis(by_unit, order, taken, axis=1)
    return np.take_along_axis(by_unit, np.maximum(units, 0), axis=1) & maskable


def _sort_keys(keys, candidates, stream=Stream.UNIT):
    """Distinct random numbers, uint64, with the column in their lowest bits; columns that are not candidates sort last."""
    columns = np.arange(candidates.shape[1], dtype="uint64")
    draws = bits(keys[:, None], columns, stream) >> np.uint64(1) & ~_COLUMNS | columns
    return draws | np.where(candidates, np.uint64(0), np.uint64(1 << 63))
