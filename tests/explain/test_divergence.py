"""Divergence is that of the definition, head by head."""

import numpy as np
import pytest

from keras_bert_rebuild.explain.divergence import attention_divergence


def plain_divergence(first, second):
    """Mean of ½ KL(P ‖ M) + ½ KL(Q ‖ M) over rows, one number after the other."""
    total = 0.0
    for p, q in zip(first, second, strict=True):
        for share, other in zip(p, q, strict=True):
            middle = (share + other) / 2
            total += sum(0.5 * x * np.log2(x / middle) for x in (share, other) if x > 0)
    return total / len(first)


def test_it_is_the_mean_jensen_shannon_divergence_of_the_rows(rng):
    first, second = rng.dirichlet(np.full(5, 0.4), (2, 3, 5)), rng.dirichlet(np.full(5, 0.4), (2, 3, 5))
    first[0, 0, 2] = [0, 0, 1, 0, 0]
    found = attention_divergence(first, second)
    expected = [[plain_divergence(first[i, j], second[i, j]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(attention_divergence(second, first), found, atol=1e-12)


def test_it_is_0_for_equal_maps_and_1_where_no_key_is_shared():
    here, there = np.eye(4), np.roll(np.eye(4), 1, axis=1)
    assert attention_divergence(here, here) == 0
    assert attention_divergence(here, there) == 1


def test_rows_of_queries_without_a_key_are_not_counted():
    first, second = np.eye(3), np.roll(np.eye(3), 1, axis=1)
    first[0] = second[0] = 0
    assert attention_divergence(first, second) == 1
    assert attention_divergence(np.zeros((2, 2)), np.zeros((2, 2))) == 0


def test_maps_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"of the same shape; got \(2, 2\) and \(3, 3\)"):
        attention_divergence(np.eye(2), np.eye(3))
