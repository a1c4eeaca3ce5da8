"""The number of predicted positions follows from the masking rate, unless another number is given."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.small_corpus import FIRST, MASK, SPECIAL, small_corpus
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.pretraining.masking import UNITS, mask_tokens, masking_units
from keras_bert_rebuild.data.pretraining.vocabulary_tables import vocabulary_tables
from keras_bert_rebuild.data.random_numbers import keys
from keras_bert_rebuild.recipes.planning.plan import plan
from keras_bert_rebuild.recipes.pretraining.pretrain import training_batches
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.settings import Phase

WORDS = 20
TABLES = vocabulary_tables([*SPECIAL, *(f"w{i}" for i in range(WORDS)), *(f"##p{i}" for i in range(WORDS))])


def predictions(seq_len, mask_rate, **given):
    (phase,) = PretrainSettings(seq_len=seq_len, mask_rate=mask_rate, **given).all_phases
    return phase.max_predictions


def examples(seq_len, pieces=0.0, seed=0):
    """An example for every number of tokens without the special ones, two or three: ids, and where the tokens are."""
    contents = [(special, count) for special in (2, 3) for count in range(1, seq_len - special + 1)]
    rng = np.random.default_rng(seed)
    ids = rng.integers(FIRST, FIRST + WORDS, (len(contents), seq_len))
    ids += WORDS * (rng.random(ids.shape) < pieces)
    columns = np.arange(seq_len)
    return ids, np.array([(columns > special - 2) & (columns < special - 1 + count) for special, count in contents])


def chosen(ids, maskable, most, mask_rate, unit="token"):
    return mask_tokens(keys(3, 0, np.arange(len(ids))), ids, maskable, TABLES, most, unit, mask_rate)[1]


@given(st.integers(5, 150), st.floats(0, 1))
def test_no_example_of_any_length_has_fewer_than_the_rate_requires(seq_len, mask_rate):
    ids, maskable = examples(seq_len)
    found = chosen(ids, maskable, predictions(seq_len, mask_rate), mask_rate)
    np.testing.assert_array_equal(found, chosen(ids, maskable, seq_len, mask_rate))


@given(st.integers(5, 60), st.floats(0, 1), st.sampled_from(["whole_word", "ngram"]), st.floats(0, 0.8), st.integers(0, 99))
def test_words_and_spans_are_left_out_only_where_the_shortest_is_longer(seq_len, mask_rate, unit, pieces, seed):
    ids, maskable = examples(seq_len, pieces, seed)
    most = predictions(seq_len, mask_rate)
    found, without = (chosen(ids, maskable, limit, mask_rate, unit) for limit in (most, seq_len))
    units = masking_units(keys(3, 0, np.arange(len(ids))), ids, maskable, TABLES, UNITS[unit])
    for row in np.flatnonzero((found != without).any(axis=1)):
        sizes = np.unique(units[row][maskable[row]], return_counts=True)[1]
        assert sizes.min() > most
        assert not found[row].any()


@pytest.mark.parametrize("mask_rate", [0.15, 0.25, 0.4])
def test_the_batches_of_a_run_have_the_given_rate(mask_rate):
    settings = PretrainSettings(steps=8, seq_len=128, short_seq_prob=0, next_sentence="none", batch_size=16)
    settings = replace(settings, mask_rate=mask_rate)  # as `pretrain` merges single settings
    batches = training_batches(small_corpus(documents=4, passages=200), settings.all_phases[0], settings)
    inputs = [batches[i][0] for i in range(len(batches))]
    tokens = sum((ids >= FIRST).sum() + (ids == MASK).sum() for ids, _, _ in inputs)
    assert abs(sum(chosen.sum() for *_, chosen in inputs) / tokens - mask_rate) < 0.005


def test_a_given_number_is_used_at_any_rate_and_the_default_at_15_percent_is_unchanged():
    assert predictions(128, 0.4, max_predictions=20) == 20
    assert [predictions(length, 0.15) for length in (16, 64, 128, 512)] == [4, 11, 21, 78]
    assert predictions(32, 1.0) == 32


def test_every_phase_has_its_own_number():
    phases = [{"steps": 1, "batch_size": 4, "seq_len": 20}, Phase(steps=1, batch_size=4, seq_len=30, max_predictions=3)]
    settings = PretrainSettings(phases=phases, mask_rate=0.3)
    assert [phase.max_predictions for phase in settings.all_phases] == [7, 3]
    assert [phase["max_predictions"] for phase in settings.resolved()["phases"]] == [7, 3]
    assert [phase.max_predictions for phase in settings.phases] == [None, 3]


def test_a_plan_counts_the_predictions_of_the_rate():
    made = [plan("tiny", gpu="h100", seq_len=128, **given) for given in ({}, {"mask_rate": 0.4}, {"max_predictions": 53})]
    assert made[0].flops < made[1].flops == made[2].flops
