"""Methods on a linear function and on polynomials of token vectors, against results computed by hand in NumPy."""

import itertools
import math

import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild.interpret.methods import METHODS, RULES, method_of, quadrature, spread_over_tokens
from keras_bert_rebuild.kernels.gradients import value_and_gradient

ROWS, LENGTH, WIDTH = 2, 5, 3
# Two rows of five positions: special tokens, three words of which one has two tokens and one is in both rows, padding.
WORDS = np.array([[-1, 0, 1, 1, -1], [-1, 2, 0, -1, -1]])
SIZES = (5, 4)


class Polynomial:
    """A `SubjectFunction` without a model: a function of token vectors `(copies, rows, length, width)`.

    Args:
        function: made of `keras.ops`, to `(copies,)`.
    """

    def __init__(self, function):
        random = np.random.default_rng(3)
        self.function, self.words, self.word_count = function, WORDS, 3
        self.vectors = random.normal(size=(ROWS, LENGTH, WIDTH)).astype("float32")
        absent = random.normal(size=WIDTH)
        self.absent = np.where((WORDS >= 0)[..., None], absent, self.vectors).astype("float32")
        tokens = type("Tokens", (), {"ids": tuple(np.zeros(size, int) for size in SIZES)})
        self.subject = type("Subject", (), {"tokens": tokens})
        self.calls = 0

    def values(self, count, vectors_of):
        self.calls += count
        return ops.convert_to_numpy(
            self.function(ops.convert_to_tensor(np.asarray(vectors_of(slice(0, count)), "float32")))
        ).astype(float)

    def values_and_gradients(self, count, vectors_of):
        vectors = np.asarray(vectors_of(slice(0, count)), "float32")
        _, gradients = value_and_gradient(lambda x: ops.sum(self.function(x)), vectors)
        return self.values(count, lambda _: vectors), list(ops.convert_to_numpy(gradients))

    def value(self, vectors):
        return float(self.values(1, lambda _: vectors[None])[0])

    def with_words(self, present):
        stays = np.concatenate([present, np.ones((len(present), 1), bool)], axis=1)[:, self.words]
        return np.where(stays[..., None], self.vectors, self.absent)

    def of_words(self, tokens):
        return np.array([tokens[self.words == word].sum() for word in range(self.word_count)])


WEIGHTS = np.random.default_rng(5).normal(size=(ROWS, LENGTH, WIDTH)).astype("float32")
WEIGHTS[1, 4] = 0  # padding changes nothing


def linear(vectors):
    return ops.sum(vectors * ops.convert_to_tensor(WEIGHTS), axis=(1, 2, 3)) + 0.5


def cubic(vectors):
    return linear(vectors) ** 3


def shapley_by_definition(function):
    """The mean over all orders of what each word adds."""
    found = np.zeros(function.word_count)
    for order in itertools.permutations(range(function.word_count)):
        present = np.zeros((1, function.word_count), bool)
        for word in order:
            before = function.value(function.with_words(present)[0])
            present[0, word] = True
            found[word] += function.value(function.with_words(present)[0]) - before
    return found / math.factorial(function.word_count)


@pytest.mark.parametrize("name", ["integrated_gradients", "leave_one_out", "shapley"])
def test_of_a_linear_function_every_token_has_its_weights_times_its_difference_from_the_baseline(name):
    function = Polynomial(linear)
    scores = method_of(name).scores(function)
    expected = (WEIGHTS * (function.vectors - function.absent)).sum(-1)
    np.testing.assert_allclose(function.of_words(scores.tokens), function.of_words(expected), atol=1e-5)
    if name == "integrated_gradients":
        np.testing.assert_allclose(scores.tokens, expected, atol=1e-5)


def test_gradient_times_input_of_a_linear_function_is_its_terms():
    function = Polynomial(linear)
    scores = method_of("gradient_x_input").scores(function)
    np.testing.assert_allclose(scores.tokens, (WEIGHTS * function.vectors).sum(-1), atol=1e-5)
    assert scores.value == pytest.approx(scores.tokens.sum() + 0.5, abs=1e-5)


@pytest.mark.parametrize("name", ["integrated_gradients", "shapley"])
def test_scores_sum_to_the_difference_from_the_baseline(name):
    function = Polynomial(cubic)
    scores = method_of(name).scores(function)
    difference = function.value(function.vectors) - function.value(function.absent)
    assert scores.complete
    assert scores.value - scores.value_at_baseline == pytest.approx(difference, rel=1e-5)
    assert scores.tokens.sum() == pytest.approx(difference, rel=1e-5)


def test_two_points_of_gauss_integrate_the_gradient_of_a_cubic_exactly_and_two_of_a_riemann_sum_do_not():
    function = Polynomial(cubic)
    whole = method_of("integrated_gradients", steps=400, rule="middle").scores(function).tokens
    scale = np.abs(whole).max()
    np.testing.assert_allclose(method_of("integrated_gradients", steps=2).scores(function).tokens, whole, atol=1e-4 * scale)
    for rule in ("left", "right", "trapezoid"):
        rough = method_of("integrated_gradients", steps=2, rule=rule).scores(function).tokens
        assert np.abs(rough - whole).max() > 1e-2 * scale


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_weights_of_sum_one_and_converges(rule):
    points, weights = quadrature(rule, 64)
    assert weights.sum() == pytest.approx(1)
    assert ((points >= 0) & (points <= 1)).all()
    assert weights @ np.exp(points) == pytest.approx(math.e - 1, rel=0.01)


def test_exact_shapley_values_are_the_mean_over_all_orders():
    function = Polynomial(cubic)
    scores = method_of("shapley").scores(function)
    np.testing.assert_allclose(function.of_words(scores.tokens), shapley_by_definition(function), rtol=1e-4)
    assert scores.errors is None


def test_sampled_shapley_values_are_near_the_exact_ones_by_their_standard_error():
    function = Polynomial(cubic)
    exact = shapley_by_definition(function)
    scores = method_of("shapley", exact_words=0, samples=400, seed=1).scores(function)
    assert (np.abs(function.of_words(scores.tokens) - exact) <= 5 * scores.errors + 1e-4).all()
    again = method_of("shapley", exact_words=0, samples=400, seed=1).scores(function)
    np.testing.assert_array_equal(scores.tokens, again.tokens)
    assert (method_of("shapley", exact_words=0, samples=8, seed=2).scores(function).tokens != scores.tokens).any()


def test_a_permutation_with_its_reverse_is_exact_for_a_function_of_pairs():
    """What antithetic sampling is for: for sums of products of two words one pair of orders has no error."""
    function = Polynomial(lambda vectors: linear(vectors) ** 2)
    scores = method_of("shapley", exact_words=0, samples=4).scores(function)
    np.testing.assert_allclose(function.of_words(scores.tokens), shapley_by_definition(function), rtol=1e-4)
    assert scores.errors.max() < 1e-3


def test_every_set_of_words_is_computed_once():
    function = Polynomial(linear)
    method_of("shapley", exact_words=0, samples=64).scores(function)
    assert function.calls <= 2**3


def test_equal_words_in_equal_roles_have_the_same_shapley_value_and_a_word_without_effect_has_none():
    function = Polynomial(lambda vectors: vectors[:, 0, 1, 0] * vectors[:, 1, 1, 0])
    function.words = np.array([[-1, 0, 1, 1, -1], [-1, 2, -1, -1, -1]])
    function.vectors[1, 1] = function.vectors[0, 1]
    function.absent[1, 1] = function.absent[0, 1]
    for name in ("shapley", "integrated_gradients", "leave_one_out"):
        found = function.of_words(method_of(name).scores(function).tokens)
        assert found[0] == pytest.approx(found[2], rel=1e-5), name
        assert found[1] == pytest.approx(0, abs=1e-6), name
        assert abs(found[0]) > 1e-3


@pytest.mark.parametrize("name", ["integrated_gradients", "shapley", "leave_one_out", "gradient_x_input"])
def test_scores_of_a_sum_of_functions_are_the_sum_of_their_scores(name):
    of = lambda function: method_of(name).scores(Polynomial(function)).tokens  # noqa: E731
    both = of(lambda vectors: 2 * cubic(vectors) - 3 * linear(vectors))
    np.testing.assert_allclose(both, 2 * of(cubic) - 3 * of(linear), atol=1e-4 * np.abs(both).max())


def test_scores_of_words_are_divided_among_their_tokens_in_every_row():
    tokens = spread_over_tokens(Polynomial(linear), np.array([2.0, 4.0, 6.0]))
    np.testing.assert_array_equal(tokens, [[0, 1, 2, 2, 0], [0, 6, 1, 0, 0]])


def test_unknown_methods_and_settings_are_refused():
    for arguments, options, message in (
        (("integrated_gradient",), {}, "got 'integrated_gradient'"),
        (("shapley",), {"steps": 3}, "has the settings samples, exact_words, seed; got steps"),
        (("rollout",), {"steps": 3}, "has no settings"),
        ((METHODS["shapley"](),), {"samples": 3}, "must be set in the object"),
    ):
        with pytest.raises(ValueError, match=message):
            method_of(*arguments, **options)
    for name, options, message in (
        ("shapley", {"samples": 3}, "an even number"),
        ("shapley", {"exact_words": 40}, "from 0 to 16"),
        ("integrated_gradients", {"rule": "simpson"}, "rule must be one of"),
        ("integrated_gradients", {"steps": 0}, "steps at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            method_of(name, **options).scores(Polynomial(linear))
