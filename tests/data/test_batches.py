"""The lengths that rows are padded to, and the arrays of inputs that they become."""

import itertools

import numpy as np
import pytest

from keras_bert_rebuild.data.batches import (
    MOST,
    bucket_lengths,
    candidates,
    chosen_lengths,
    few_lengths,
    input_arrays,
    model_inputs,
)


def test_the_largest_length_is_that_of_the_longest_row():
    for longest in (1, 8, 9, 100, 300, 512, 1000):
        for compiled in (False, True):
            lengths = bucket_lengths(longest, compiled)
            assert lengths == sorted(set(lengths))
            assert lengths[-1] == longest
    assert len(bucket_lengths(512, compiled=True)) == 5
    assert len(bucket_lengths(512, compiled=False)) == 48


IDS, SEGMENTS = [[2, 5, 3], [2, 3]], [[0, 1, 1], [0, 0]]


def test_arrays_come_in_the_order_of_the_names():
    names = ["Input-Mask", "Input-Token", "Input-Masked", "Input-Segment"]
    inputs, padding = model_inputs(names, IDS, SEGMENTS, 9, masked=[[False, True, False], [False, False]])
    mask, ids, masked, segments = input_arrays(inputs, 4, padding)
    assert mask.tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert ids.tolist() == [[2, 5, 3, 9], [2, 3, 9, 9]]
    assert masked.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    assert segments.tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    assert {array.dtype for array in (mask, ids, masked, segments)} == {np.dtype("int32")}


def test_one_input_comes_bare():
    inputs, padding = model_inputs(["Input-Token"], IDS, SEGMENTS, 0)
    assert input_arrays(inputs, 3, padding).shape == (2, 3)


@pytest.mark.parametrize("name", ["Input-Masked", "Input-Task"])
def test_inputs_that_rows_do_not_decide_are_named(name):
    with pytest.raises(ValueError, match=f"it also has {name}"):
        model_inputs(["Input-Token", name], IDS, SEGMENTS, 0)


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
