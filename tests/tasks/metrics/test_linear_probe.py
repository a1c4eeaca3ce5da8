import numpy as np
import pytest

from keras_bert_rebuild.tasks.metrics.linear_probe import choose_l2, every_fifth, fit_linear_probe, standardised


def examples(n=120, width=6, labels=3, seed=0, noise=1.0):
    """Vectors around a centre for each label."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((labels, width))
    answers = rng.integers(0, labels, n)
    return centres[answers] + noise * rng.standard_normal((n, width)), answers


def gradient(probe, vectors, labels, l2):
    errors = np.exp(probe.log_probabilities(vectors))
    errors[np.arange(len(labels)), labels] -= 1
    return vectors.T @ errors / len(labels) + l2 * probe.kernel, errors.mean(0)


@pytest.mark.parametrize(("n", "width"), [(120, 6), (20, 50)])
@pytest.mark.parametrize("l2", [1.0, 1e-4])
def test_the_gradient_is_zero_at_the_fit(n, width, l2):
    vectors, labels = examples(n, width)
    of_kernel, of_bias = gradient(fit_linear_probe(vectors, labels, 3, l2), vectors, labels, l2)
    assert np.abs(of_kernel).max() < 1e-6
    assert np.abs(of_bias).max() < 1e-6


def test_features_of_other_scales_take_few_steps():
    vectors, labels = examples(300, 8)
    probe = fit_linear_probe(vectors * 10.0 ** np.arange(-4, 4), labels, 3, 1e-6)
    assert probe.steps < 200
    assert (probe.predict(vectors * 10.0 ** np.arange(-4, 4)) == labels).mean() > 0.5


def test_a_strong_penalty_answers_with_the_shares_of_the_labels():
    vectors, labels = examples()
    shares = np.bincount(labels) / len(labels)
    probabilities = np.exp(fit_linear_probe(vectors, labels, 3, 1e6).log_probabilities(vectors))
    np.testing.assert_allclose(probabilities, np.broadcast_to(shares, probabilities.shape), atol=1e-4)


def test_turning_and_shifting_all_vectors_changes_no_answer():
    vectors, labels = examples()
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    first = fit_linear_probe(vectors, labels, 3, 1e-2).log_probabilities(vectors)
    second = fit_linear_probe(vectors @ turn + 5, labels, 3, 1e-2).log_probabilities(vectors @ turn + 5)
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_the_same_examples_give_the_same_bits():
    vectors, labels = examples()
    first, second = (fit_linear_probe(vectors, labels, 3, 1e-3) for _ in range(2))
    assert (first.kernel == second.kernel).all()
    assert (first.bias == second.bias).all()


def test_constant_vectors_leave_only_the_bias():
    probe = fit_linear_probe(np.ones((4, 3)), np.array([0, 1, 1, 1]), 2, 1.0)
    assert not probe.kernel.any()
    np.testing.assert_allclose(np.exp(probe.log_probabilities(np.ones((1, 3)))), [[0.25, 0.75]], atol=1e-6)


def test_the_chosen_penalty_is_the_best_of_separate_fits():
    vectors, labels = examples(60, 30, noise=2.0)
    held_out, candidates = every_fifth(len(labels)), (1.0, 0.1, 0.01, 0.001)
    losses = {}
    for l2 in candidates:
        probe = fit_linear_probe(vectors[~held_out], labels[~held_out], 3, l2)
        losses[l2] = -probe.log_probabilities(vectors[held_out])[np.arange(held_out.sum()), labels[held_out]].mean()
    best = min(losses, key=losses.get)
    assert choose_l2(vectors, labels, 3, held_out, candidates=candidates) == best != candidates[-1]


def test_no_group_is_in_both_parts():
    groups = np.repeat(np.arange(23), 3)
    held_out = every_fifth(groups)
    assert not set(groups[held_out]) & set(groups[~held_out])
    assert every_fifth(2).tolist() == [False, True]


def test_standardised_takes_the_numbers_of_the_first_array():
    first, second = standardised([[0.0, 7.0], [2.0, 7.0]], [[4.0, 8.0]])
    assert first.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert second.tolist() == [[3.0, 0.0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1]}, r"expected vectors \(n, width\) and n labels; got shapes \(3, 1\) and \(2,\)"),
        ({"labels": [0, 1, 2]}, "labels must be integers from 0 to below num_labels, at least 2; got 0 to 2 of 2"),
        ({"vectors": [[0.0], [1.0], [np.nan]]}, "vectors must be finite numbers"),
        ({"l2": 0.0}, "l2 must be a number above 0; got 0.0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, message):
    given = {"vectors": [[0.0], [1.0], [2.0]], "labels": [0, 1, 1], "num_labels": 2, "l2": 1.0}
    with pytest.raises(ValueError, match=message):
        fit_linear_probe(**{**given, **changes})


def test_a_part_that_is_everything_is_refused():
    with pytest.raises(ValueError, match="held_out must be 3 booleans, some True and some False"):
        choose_l2([[0.0], [1.0], [2.0]], [0, 1, 1], 2, np.ones(3, bool))
