"""Finite numbers, and nothing else that looks like one."""

import math

import numpy as np
import pytest

from keras_bert_rebuild.files.limits import all_finite, is_number


@pytest.mark.parametrize("value", [0, -1.5, 10**300, np.float32(2), np.int64(3)])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, None, "1", 1j, math.nan, math.inf, 10**400, np.float32("nan")])
def test_what_is_no_finite_number(value):
    assert not is_number(value)


def test_one_value_makes_an_array_not_finite():
    array = np.full((3, 4), 1e38, "float32")
    assert all_finite(array)
    for value in (np.nan, np.inf, -np.inf):
        array[1, 2] = value
        assert not all_finite(array)
    assert not all_finite(np.array([np.inf, -np.inf], "float16"))
