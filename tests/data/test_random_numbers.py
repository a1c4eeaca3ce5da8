"""Counter-based draws are uniform, independent of their neighbours, and the same everywhere."""

import collections
import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.random_numbers import Stream, below, bits, keys, permuted, uniform, uniform_at

DRAWS = 400


@pytest.fixture(scope="module")
def draws():
    """Draws of 500 neighbouring keys."""
    return uniform(keys(0, 0, np.arange(500)), DRAWS, Stream.UNIT)


def correlation_in_sigmas(a, b):
    return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) * math.sqrt(a.size)


def test_draws_are_uniform(draws):
    counts = np.histogram(draws, bins=100, range=(0, 1))[0]
    expected = draws.size / 100
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_squared - 99) < 5 * math.sqrt(2 * 99)
    assert draws.min() >= 0
    assert draws.max() < 1


def test_every_bit_is_set_half_of_the_time():
    words = bits(keys(3, 1, np.arange(500))[:, None], np.arange(40), Stream.CUT)
    rates = [(words >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(64)]
    assert max(abs(rate - 0.5) for rate in rates) < 5 * 0.5 / math.sqrt(words.size)


def test_neighbouring_keys_counters_streams_epochs_and_seeds_are_independent(draws):
    assert correlation_in_sigmas(draws[1:], draws[:-1]) < 5
    assert correlation_in_sigmas(draws[:, 1:], draws[:, :-1]) < 5
    for other in (
        uniform(keys(0, 0, np.arange(500)), DRAWS, Stream.NGRAM),
        uniform(keys(0, 1, np.arange(500)), DRAWS, Stream.UNIT),
        uniform(keys(1, 0, np.arange(500)), DRAWS, Stream.UNIT),
    ):
        assert correlation_in_sigmas(draws, other) < 5


def test_keys_are_distinct():
    all_keys = keys(5, np.arange(20)[:, None], np.arange(1000))
    assert all_keys.shape == (20, 1000)
    assert len(np.unique(all_keys)) == 20000
    assert len({int(keys(seed, epoch, 0)) for seed in range(50) for epoch in range(50)}) == 2500


def test_a_draw_does_not_depend_on_the_other_draws_of_a_call(draws):
    assert uniform_at(keys(0, 0, 17), 9, Stream.UNIT) == draws[17, 9]
    assert (uniform(keys(0, 0, np.array([17])), 10, Stream.UNIT) == draws[17, :10]).all()


def test_draws_are_the_same_numbers_everywhere():
    words = bits(keys(7, 3, np.arange(8))[:, None], np.arange(8), Stream.REPLACEMENT)
    places = permuted(keys(7, 3, 0), 10**12, np.arange(64))
    digest = hashlib.sha256(words.astype("<u8").tobytes() + places.astype("<i8").tobytes()).hexdigest()
    assert digest == "5d3ddb52fedd16cf7e770f835233fbaecb012b9dbd7e126c7633038840db1603"


def test_a_seed_may_be_any_whole_number():
    assert len({int(keys(seed, 0, 0)) for seed in (-1, 0, 2**63, 2**64 - 2, np.int64(5))}) == 5


@pytest.mark.parametrize("high", [1, 3, 2**31 - 1, 2**40])
def test_whole_numbers_stay_below_their_bound(high):
    assert below(np.array([0.0, 1 - 2.0**-53]), high).tolist() == [0, high - 1]


@given(st.integers(1, 500), st.integers(0, 2**64 - 1))
def test_a_permutation_has_every_number_once(n, seed):
    assert sorted(permuted(keys(seed, 0, 0), n, np.arange(n))) == list(range(n))


def test_a_large_permutation_can_be_evaluated_at_some_indices():
    n = 10**12
    places = permuted(keys(0, 0, 0), n, np.arange(2000))
    assert len(np.unique(places)) == 2000
    assert places.max() < n
    assert abs(places.mean() / n - 0.5) < 5 / math.sqrt(12 * 2000)


def test_all_orders_of_four_are_equally_frequent():
    orders = permuted(keys(1, np.arange(48000)[:, None], 0), 4, np.arange(4))
    counts = collections.Counter(map(tuple, orders.tolist()))
    chi_squared = sum((counts[order] - 2000) ** 2 / 2000 for order in itertools.permutations(range(4)))
    assert abs(chi_squared - 23) < 5 * math.sqrt(2 * 23)


def test_the_image_of_a_number_is_uniform_and_independent_of_its_neighbour():
    order = permuted(keys(2, np.arange(20000)[:, None], 0), 50, np.array([0, 1, 49]))
    for column in order.T:
        chi_squared = ((np.bincount(column, minlength=50) - 400) ** 2 / 400).sum()
        assert abs(chi_squared - 49) < 5 * math.sqrt(2 * 49)
    steps = (order[:, 1] - order[:, 0]) % 50
    chi_squared = ((np.bincount(steps, minlength=50)[1:] - 20000 / 49) ** 2 / (20000 / 49)).sum()
    assert abs(chi_squared - 48) < 5 * math.sqrt(2 * 48)
