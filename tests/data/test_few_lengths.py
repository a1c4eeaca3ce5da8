"""Few lengths to pad rows to, chosen by the rows."""

import itertools

import numpy as np
import pytest

from keras_bert_rebuild.data.few_lengths import MOST, candidates, chosen_lengths, few_lengths


def computed(sizes, lengths):
    return np.array(lengths)[np.searchsorted(lengths, sizes)].sum()


@pytest.mark.parametrize("longest", [2, 8, 16, 17, 40, 128, 300, 512, 8192])
def test_there_are_at_most_five_lengths_and_the_last_holds_the_longest_row(rng, longest):
    sizes = rng.integers(1, longest + 1, 1000)
    sizes[0] = longest
    for lengths in (few_lengths(longest), chosen_lengths(sizes, longest), chosen_lengths(sizes[:9], longest)):
        assert lengths == sorted(set(lengths))
        assert lengths[-1] == longest
        assert len(lengths) <= MOST


def test_the_chosen_lengths_compute_less_than_any_others(rng):
    sizes = rng.geometric(0.05, 1000).clip(3, 96)
    chosen = computed(sizes, chosen_lengths(sizes, 96, most=3))
    *others, last = candidates(96)
    assert chosen == min(computed(sizes, [*pair, last]) for pair in itertools.combinations(others, 2))


def test_longer_rows_than_those_it_was_chosen_for_need_at_most_twice_the_tokens():
    assert chosen_lengths([10, 11, 12] * 200, 100) == [12, 24, 48, 96, 100]


def test_no_length_is_taken_that_saves_nothing():
    assert chosen_lengths([10, 11, 12] * 200, 12) == [12]
