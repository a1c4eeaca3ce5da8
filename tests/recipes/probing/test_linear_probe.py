"""Linear probes: what is in the vectors is found, what is not is not, and ridge regressions are exact."""

import numpy as np
import pytest

from keras_bert_rebuild.recipes.probing.linear_probe import (
    overlap,
    predicted_labels,
    predicted_numbers,
    ridge_regression,
    token_counts,
)


def examples(rng, count=120, width=5, classes=3):
    vectors = rng.normal(size=(count, width)) * rng.uniform(0.1, 10, width) + rng.normal(size=width)
    logits = vectors @ rng.normal(size=(width, classes))
    return vectors, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def test_ridge_regressions_solve_their_normal_equations(rng):
    vectors, numbers = rng.normal(size=(40, 6)) + 2, rng.normal(size=40) + 3
    columns, penalties = np.concatenate([vectors, np.ones((40, 1))], axis=1), np.diag([1.0] * 6 + [0.0])
    kernels, biases = ridge_regression(vectors, numbers, (0.5, 1e-3))
    for kernel, bias, l2 in zip(kernels.T, biases, (0.5, 1e-3), strict=True):
        expected = np.linalg.solve(columns.T @ columns / 40 + l2 * penalties, columns.T @ numbers / 40)
        np.testing.assert_allclose([*kernel, bias], expected, rtol=1e-8, atol=1e-10)


def test_constant_features_are_harmless_and_scales_do_not_matter(rng):
    vectors, labels = examples(rng)
    with_constants = np.concatenate([vectors * 1e4, np.full((len(vectors), 2), 7.0)], axis=1)
    answers = [predicted_labels(given[:80], labels[:80], 3, given[80:]) for given in (vectors, with_constants)]
    np.testing.assert_array_equal(*answers)
    assert np.mean(answers[0] == labels[80:]) > 0.6


def test_labels_and_numbers_that_vectors_do_not_tell_are_not_found(rng):
    vectors = rng.normal(size=(400, 30))
    labels, numbers = rng.integers(0, 2, 400), rng.normal(size=400)
    found = predicted_labels(vectors[:200], labels[:200], 2, vectors[200:])
    assert 0.35 < np.mean(found == labels[200:]) < 0.65
    # The strongest penalty is chosen: predictions stay near the mean.
    assert predicted_numbers(vectors[:200], numbers[:200], vectors[200:]).std() < 0.3 * numbers.std()


def test_bags_of_words_count_frequent_tokens_and_weigh_rare_ones():
    ids = [np.array(row) for row in ([2, 7, 7, 3], [2, 7, 8, 3], [2, 9, 9, 3])]
    counts = token_counts(ids, 12)
    assert counts.shape == (3, 5)
    np.testing.assert_allclose(counts.sum(axis=1), np.log([2 * 2 * 3, 2 * 2 * 2 * 2, 2 * 2 * 3]))
    similar = overlap(counts, np.array([0, 0, 0]), np.array([0, 1, 2]))
    assert similar[0] == pytest.approx(1)
    assert 0 < similar[1] < 1
    assert similar[2] == 0  # what they share is in every text
