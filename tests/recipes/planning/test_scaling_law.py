"""The scaling law: known laws are recovered, and terms that the runs do not determine are reported."""

import numpy as np
import pytest

from keras_bert_rebuild.recipes.planning.law_uncertainty import fit_with_uncertainty
from keras_bert_rebuild.recipes.planning.scaling_law import DELTA, ScalingLaw, fit_law, fit_laws, identified

KNOWN = ScalingLaw(1.69, 40.0, 0.34, 410.7, 0.28)
SIZES, TOKENS = (values.ravel() for values in np.meshgrid([1e5, 3e5, 1e6, 4e6], [1e6, 4e6, 2e7], indexing="ij"))


def numbers(law):
    return np.array([law.floor, law.size_factor, law.size_exponent, law.token_factor, law.token_exponent], "float64")


def test_a_known_law_is_found_from_its_losses():
    found = fit_law(SIZES, TOKENS, KNOWN.loss(SIZES, TOKENS))
    np.testing.assert_allclose(numbers(found), numbers(KNOWN), rtol=1e-4)


def test_one_outlier_does_not_move_it_and_least_squares_are_moved():
    losses = KNOWN.loss(SIZES, TOKENS)
    losses[5] *= 1.1
    robust, plain = (fit_law(SIZES, TOKENS, losses, delta=delta) for delta in (DELTA, 1.0))
    errors = [abs(np.log(law.loss(1e7, 1e8) / KNOWN.loss(1e7, 1e8))) for law in (robust, plain)]
    assert errors[0] < 0.01 < errors[1]


def test_no_other_law_nearby_has_a_lower_loss_and_scipys_method_finds_none(rng):
    losses = KNOWN.loss(SIZES, TOKENS) * np.exp(0.01 * rng.normal(size=len(SIZES)))

    def huber(vector, delta=DELTA):
        e, a, alpha, b, beta = vector
        logs = np.log(np.exp(e) + np.exp(a - alpha * np.log(SIZES)) + np.exp(b - beta * np.log(TOKENS)))
        sizes = np.abs(logs - np.log(losses))
        return np.sum(np.where(sizes <= delta, sizes**2 / 2, delta * (sizes - delta / 2)))

    law = fit_law(SIZES, TOKENS, losses)
    at = np.array([np.log(law.floor), np.log(law.size_factor), law.size_exponent, np.log(law.token_factor), law.token_exponent])
    found = huber(at)
    assert all(huber(at + 1e-3 * rng.normal(size=5)) >= 0.999 * found for _ in range(200))
    optimize = pytest.importorskip("scipy.optimize")
    others = [optimize.minimize(huber, at + 0.3 * rng.normal(size=5), method="Nelder-Mead").fun for _ in range(3)]
    assert found <= 1.01 * min(others)


def test_many_fits_at_once_are_those_of_each_alone(rng):
    many = KNOWN.loss(SIZES, TOKENS) * np.exp(0.003 * rng.normal(size=(3, len(SIZES))))
    for law, losses in zip(fit_laws(SIZES, TOKENS, many, KNOWN), many, strict=True):
        np.testing.assert_allclose(law.loss(1e7, 1e8), fit_law(SIZES, TOKENS, losses).loss(1e7, 1e8), rtol=5e-3)


def test_runs_of_one_size_give_the_term_of_tokens_and_the_other_way_round():
    tokens = np.geomspace(1e6, 1e8, 6)
    found = fit_law(np.full(6, 2e6), tokens, KNOWN.loss(2e6, tokens))
    assert found.terms == (False, True)
    assert found.token_exponent == pytest.approx(0.28, rel=1e-3)
    assert found.floor == pytest.approx(1.69 + 40 / 2e6**0.34, rel=1e-3)
    found = fit_law(tokens, np.full(6, 1e8), KNOWN.loss(tokens, 1e8))
    assert found.terms == (True, False)
    assert found.size_exponent == pytest.approx(0.34, rel=1e-2)


@pytest.mark.parametrize(
    ("sizes", "tokens", "said"),
    [
        (
            [1e6, 1e6],
            [1e7, 1.01e7],
            r"runs of different sizes or with different numbers of tokens; got 1 size and 1 number of tokens",
        ),
        ([1e6, 2e6] * 3, [1e7, 1e7, 2e7, 2e7, 4e7, 4e7], r"at least 3 different sizes, or all of one; got 2 sizes and 3 numbers"),
        ([1e6, 2e6, 4e6], [1e7, 2e7, 4e7], r"a scaling law of 5 numbers needs at least 6 runs; got 3"),
        ([1e6] * 3, [1e7, 2e7, 4e7], r"a scaling law of 3 numbers needs at least 4 runs; got 3"),
    ],
)
def test_runs_that_cannot_tell_are_errors(sizes, tokens, said):
    with pytest.raises(ValueError, match=said):
        identified(sizes, tokens)


def test_losses_that_are_not_above_zero_are_errors():
    with pytest.raises(ValueError, match="above 0"):
        fit_law([1e6] * 4, [1e6, 2e6, 4e6, 8e6], [3.0, 2.0, np.nan, 1.0])


@pytest.mark.slow
def test_intervals_contain_what_is_true_and_grow_with_the_distance(rng):
    losses = KNOWN.loss(SIZES, TOKENS) * np.exp(0.004 * rng.normal(size=len(SIZES)))
    fitted = fit_with_uncertainty(SIZES, TOKENS, losses, fits=60)
    np.testing.assert_allclose(fitted.errors, np.log(losses / fitted.without))
    widths = []
    for size, tokens in ((1e6, 2e7), (1e7, 2e8), (1e9, 1e10)):
        low, high = fitted.interval(size, tokens)
        assert low < KNOWN.loss(size, tokens) < high
        widths.append(high / low)
    assert widths == sorted(widths)
    low, high = fitted.interval_of("token_exponent")
    assert low < 0.28 < high


def test_the_optimum_has_the_least_loss_of_all_sizes_for_its_operations():
    size, tokens = KNOWN.optimum(1e18)
    assert 6 * size * tokens == pytest.approx(1e18)
    sizes = size * np.geomspace(1 / 3, 3, 61)
    assert np.argmin(KNOWN.loss(sizes, 1e18 / 6 / sizes)) == 30
    with pytest.raises(ValueError, match="a term for parameters and one for tokens"):
        ScalingLaw(1.0, None, None, 2.0, 0.3).optimum(1e18)
