"""Masking respects its rates, its budget and its units."""

import math

import numpy as np
import pytest
from helpers.small_corpus import CLS, FIRST, MASK, PAD, SEP, SPECIAL, UNK
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.pretraining.masking import UNITS, factorisation_order, mask_tokens, masking_units
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.data.random_numbers import keys

# Ids 5 to 104 start words, 105 to 204 continue them, 205 to 214 are unused.
VOCABULARY = [
    *SPECIAL,
    *(f"w{i}" for i in range(100)),
    *(f"##p{i}" for i in range(100)),
    *(f"[unused{i}]" for i in range(10)),
]
WORDS, PIECES, UNUSED = FIRST, FIRST + 100, FIRST + 200
TABLES = vocabulary_tables(VOCABULARY)


def text(batch, length, pieces=0.3, seed=0):
    """Rows `[CLS] A [SEP] B [SEP]`, padded: ids, and the mask of corpus tokens."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(WORDS, PIECES, (batch, length)) + 100 * (rng.random((batch, length)) < pieces)
    maskable = np.ones((batch, length), bool)
    for column, special in ((0, CLS), (length // 2, SEP), (length - 3, SEP), (length - 2, PAD), (length - 1, PAD)):
        ids[:, column] = special
        maskable[:, column] = False
    return ids.astype("int32"), maskable


def mask(ids, maskable, limit=1000, seed=0, **settings):
    return mask_tokens(keys(seed, 0, np.arange(len(ids))), ids, maskable, TABLES, limit, **settings)


def within(rate, expected, count):
    return abs(rate - expected) <= 5 * math.sqrt(expected * (1 - expected) / count)


def word_numbers(ids):
    """The word number of every token of whole rows, found token by token."""
    words = np.zeros_like(ids)
    for row, of_row in zip(ids, words, strict=True):
        for i in range(1, len(row)):
            goes_on = PIECES <= row[i] < PIECES + 100 and row[i - 1] >= FIRST
            of_row[i] = of_row[i - 1] + (not goes_on)
    return words


def test_15_percent_of_every_example_are_chosen_rounded():
    ids, maskable = text(500, 104)  # 99 of them text: 14.85
    _, chosen = mask(ids, maskable)
    assert (chosen.sum(axis=1) == 15).all()
    assert not chosen[~maskable].any()


@pytest.mark.parametrize("unit", UNITS)
def test_80_10_10_percent_of_the_chosen_are_mask_random_and_unchanged(unit):
    ids, maskable = text(3000, 69)
    ids[maskable] = FIRST  # one token, so that a random one is visible
    masked, chosen = mask(ids, maskable, unit=unit)
    kinds = masked[chosen == 1]
    assert within((kinds == MASK).mean(), 0.8, len(kinds))
    drawn = (kinds != MASK) & (kinds != FIRST)
    rate = 0.1 * (1 - 1 / len(TABLES.replacements))
    assert within(drawn.mean(), rate, len(kinds))
    assert within((kinds == FIRST).mean(), 0.2 - rate, len(kinds))
    assert (masked[chosen == 0] == ids[chosen == 0]).all()


def test_rates_are_adjustable():
    ids, maskable = text(200, 104)
    assert (mask(ids, maskable, mask_rate=0.4)[1].sum(axis=1) == 40).all()
    masked, chosen = mask(ids, maskable, mask_mask_rate=1, mask_random_rate=0)
    assert (masked[chosen == 1] == MASK).all()
    masked, chosen = mask(ids, maskable, mask_mask_rate=0, mask_random_rate=0)
    np.testing.assert_array_equal(masked, ids)
    assert chosen.any()


@pytest.mark.parametrize("rates", [(0.0, 1.0), (0.8, 0.1), (0.1, 0.8), (0.45, 0.1)])
def test_replacements_are_all_tokens_except_special_and_unused_ones_whatever_the_rates(rates):
    ids, maskable = text(20000, 69)
    ids[maskable] = UNUSED  # never drawn, so that every replacement is visible
    masked, chosen = mask(ids, maskable, mask_mask_rate=rates[0], mask_random_rate=rates[1])
    drawn = masked[(chosen == 1) & (masked != MASK) & (masked != UNUSED)]
    assert within(len(drawn) / chosen.sum(), rates[1], chosen.sum())
    counts = np.bincount(drawn, minlength=len(VOCABULARY))
    assert not counts[:FIRST].any()
    assert not counts[FIRST + 200 :].any()
    expected = counts.sum() / 200
    chi_squared = ((counts[FIRST : FIRST + 200] - expected) ** 2 / expected).sum()
    assert abs(chi_squared - 199) < 5 * math.sqrt(2 * 199)


@pytest.mark.parametrize("unit", UNITS)
def test_special_tokens_of_the_text_are_not_chosen(unit):
    ids, maskable = text(200, 69)
    ids[:, 5] = UNK
    ids[:, 9] = MASK
    _, chosen = mask(ids, maskable, mask_rate=1.0, unit=unit)
    assert (chosen == (maskable & ~np.isin(ids, (UNK, MASK)))).all()


@pytest.mark.parametrize("unit", UNITS)
def test_the_order_of_prediction_does_not_follow_from_the_choice(unit):
    ids, maskable = text(4000, 105, pieces=0.0)
    of_rows = keys(0, 0, np.arange(len(ids)))
    _, chosen = mask(ids, maskable, unit=unit)
    order = factorisation_order(of_rows, chosen)
    assert (np.sort(order, axis=1)[:, -15:] == np.arange(1, 16)).all()
    units = masking_units(of_rows, ids, maskable, TABLES, UNITS[unit] or 1)
    numbers = np.zeros((len(ids), 105), bool)  # columns that are the number of a unit that is chosen
    numbers[np.nonzero(chosen)[0], units[chosen == 1]] = True
    ranks = order[(chosen == 1) & numbers]
    assert abs(ranks.mean() - 8) < 5 * math.sqrt((15**2 - 1) / 12 / len(ranks))


def test_every_position_is_chosen_equally_often():
    ids, maskable = text(4000, 45)  # 6 of 40
    _, chosen = mask(ids, maskable)
    assert all(within(rate, 6 / 40, 4000) for rate in chosen.mean(axis=0)[maskable[0]])
    pairs = (chosen[:, 1] * chosen[:, 2]).mean()
    assert within(pairs, 6 / 40 * 5 / 39, 4000)


@pytest.mark.parametrize("unit", ["whole_word", "ngram"])
def test_whole_words_are_chosen(unit):
    ids, maskable = text(400, 105)
    _, chosen = mask(ids, maskable, unit=unit)
    words = word_numbers(ids)
    for row in range(400):
        own = set(words[row][chosen[row] == 1])
        assert (chosen[row] == np.isin(words[row], list(own))).all()
    assert (chosen.sum(axis=1) == 15).mean() > 0.9
    assert chosen.sum(axis=1).max() == 15


def test_a_word_does_not_continue_after_a_special_token():
    ids, maskable = text(1, 20, pieces=1.0)
    units = masking_units(keys(0, 0, np.arange(1)), ids, maskable, TABLES, 1)[0]
    assert len(set(units[maskable[0]])) == 2


@pytest.mark.parametrize("longest", [2, 3, 5])
def test_spans_of_n_words_have_a_probability_proportional_to_1_by_n(longest):
    ids = np.full((300, 500), WORDS)
    units = masking_units(keys(0, 0, np.arange(300)), ids, np.ones(ids.shape, bool), TABLES, longest)
    sizes = np.concatenate([np.bincount(row)[:-1] for row in units])  # the last span may be cut
    weights = 1 / np.arange(1, longest + 1)
    for n, expected in enumerate(weights / weights.sum(), start=1):
        assert within((sizes == n).mean(), expected, len(sizes))
    assert sizes.max() == longest


def test_units_are_taken_until_no_other_fits():
    ids, maskable = text(300, 60, pieces=0.6)
    _, chosen = mask(ids, maskable, unit="whole_word", mask_rate=0.3)
    words, wanted = word_numbers(ids), np.rint(maskable.sum(axis=1) * 0.3)
    for row in range(300):
        left_out = np.unique(words[row][maskable[row] & (chosen[row] == 0)])
        shortest = min((words[row] == word).sum() for word in left_out)
        assert chosen[row].sum() + shortest > wanted[row]


def test_words_longer_than_the_budget_are_masked_if_they_fit_the_limit():
    ids = np.array([[WORDS, PIECES, PIECES, WORDS, PIECES, PIECES, PIECES]])
    maskable = np.ones(ids.shape, bool)
    assert mask(ids, maskable, limit=3, unit="whole_word")[1].tolist() == [[1, 1, 1, 0, 0, 0, 0]]
    assert not mask(ids, maskable, limit=2, unit="whole_word")[1].any()


def test_an_example_is_masked_identically_in_every_batch():
    ids, maskable = text(50, 69)
    for unit in UNITS:
        together = mask(ids, maskable, unit=unit)
        alone = mask_tokens(keys(0, 0, np.array([31])), ids[31:32], maskable[31:32], TABLES, 1000, unit=unit)
        assert (alone[0][0] == together[0][31]).all()
        assert (alone[1][0] == together[1][31]).all()


@given(
    st.integers(0, 10),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
    st.sampled_from(list(UNITS)),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_masking_never_exceeds_its_limit(available, limit, seed, unit, pieces):
    ids = np.array([[PIECES if piece else WORDS for piece in pieces]])
    maskable = np.zeros((1, 12), bool)
    maskable[0, :available] = True
    _, chosen = mask(ids, maskable, limit, seed, unit=unit, mask_rate=0.9)
    assert chosen.sum() <= min(limit, available)
    assert not chosen[~maskable].any()
    if unit == "token":
        assert chosen.sum() == min(max(round(available * 0.9), 1), limit, available)
    units = masking_units(keys(seed, 0, np.arange(1)), ids, maskable, TABLES, UNITS[unit] or 1)[maskable]
    if unit != "token" and len(units) and np.bincount(units).min() <= limit:
        assert chosen.any()


@pytest.mark.parametrize(
    ("vocabulary", "match"),
    [
        (["a", "[CLS]", "[SEP]", "[MASK]"], r"must have \[PAD\] or an empty token"),
        (["[PAD]", "a", "[CLS]", "[SEP]"], r"must have \[MASK\]; its 4 tokens do not include it"),
        (["", "[CLS]", "[SEP]", "[MASK]", "[UNK]"], "tokens that are not special"),
    ],
)
def test_a_vocabulary_that_lacks_a_token_is_an_error(vocabulary, match):
    with pytest.raises(ValueError, match=match):
        vocabulary_tables(vocabulary)


def test_padding_may_be_the_empty_token():
    assert vocabulary_tables(["a", "", "[CLS]", "[SEP]", "[MASK]"]).pad_id == 1
