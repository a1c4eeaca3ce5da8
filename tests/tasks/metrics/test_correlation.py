"""Correlations follow the definitions, also with ties and at the limits of float64."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.tasks.metrics.correlation import mean_squared_error, pearson, ranks, spearman

rows = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=30)


def plain_pearson(a, b):
    """In integers up to the last step."""
    n = len(a)
    products = n * sum(x * y for x, y in zip(a, b, strict=True)) - sum(a) * sum(b)
    squares = [n * sum(x * x for x in values) - sum(values) ** 2 for values in (a, b)]
    return products / math.sqrt(squares[0] * squares[1]) if all(squares) else math.nan


def doubled_ranks(values):
    """Twice the mean of the ranks of a number."""
    return [2 * sum(other < value for other in values) + sum(other == value for other in values) + 1 for value in values]


@given(rows)
def test_pearson_is_that_of_exact_sums(rows):
    a, b = zip(*rows, strict=True)
    assert pearson(a, b) == pytest.approx(plain_pearson(a, b), abs=1e-12, nan_ok=True)


@given(rows)
def test_spearman_is_pearson_of_mean_ranks(rows):
    a, b = zip(*rows, strict=True)
    assert (2 * ranks(a)).tolist() == doubled_ranks(a)
    assert spearman(a, b) == pytest.approx(plain_pearson(doubled_ranks(a), doubled_ranks(b)), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_a_line_correlates_fully_at_any_scale(scale):
    values = np.array([1.0, 2.0, 5.0]) * scale
    assert pearson(values, 3 * values) == pytest.approx(1)
    assert pearson(values, -values) == spearman(values, -values) == pytest.approx(-1)


def test_errors_are_squared():
    assert mean_squared_error([1, 2], [1, 4]) == 2
