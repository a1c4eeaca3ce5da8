"""A plan of packing has every sequence once, and hardly any padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.packing import packing_plan


@given(st.lists(st.integers(0, 30), min_size=2, max_size=40))
def test_a_plan_has_every_piece_once_in_rows_that_hold_it(histogram):
    capacity = len(histogram) - 1
    plan = packing_plan(histogram, capacity)
    assert (plan.lengths.sum(axis=1) <= capacity).all()
    for length in range(1, capacity + 1):
        of_length = plan.lengths == length
        counts = np.repeat(plan.counts, of_length.sum(axis=1))
        numbers = [first + i for first, count in zip(plan.firsts[of_length], counts, strict=True) for i in range(count)]
        assert sorted(numbers) == list(range(histogram[length]))


def test_a_piece_goes_to_the_fullest_row_with_room_for_it():
    plan = packing_plan(np.bincount([14, 12, 6, 5, 3]), 20)
    assert sorted(map(tuple, plan.lengths)) == [(12, 5, 3), (14, 6, 0)]  # in the emptiest row, 6 would leave no room for 3
    assert plan.counts.tolist() == [1, 1]


def test_rows_are_nearly_full(rng):
    lengths = rng.integers(3, 129, 5000)
    plan = packing_plan(np.bincount(lengths, minlength=129), 128)
    assert lengths.sum() / (plan.counts.sum() * 128) > 0.97


def test_rows_of_very_short_texts_are_full_too(rng):
    lengths = rng.integers(4, 14, 5000)
    plan = packing_plan(np.bincount(lengths, minlength=513), 512)
    assert lengths.sum() / (plan.counts.sum() * 512) > 0.97
