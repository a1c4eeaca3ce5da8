"""The attribution methods, which score the tokens of a text for one output, and the table of their names."""

import abc
import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from keras_bert_rebuild.explain.attention_maps import attention_maps
from keras_bert_rebuild.interpret.subject import SubjectFunction

RULES = ("gauss_legendre", "middle", "left", "right", "trapezoid")

# The most words of which `Shapley` can evaluate all subsets.
MOST_EXACT = 16


@dataclass(frozen=True)
class Scores:
    """The result of a method."""

    tokens: np.ndarray
    """The score of every token, float64 `(rows, length)`; 0 at padding."""

    value: float
    """The output for the texts."""

    value_at_baseline: float | None = None
    """The output with every word replaced by the baseline; None for methods without a baseline."""

    complete: bool = False
    """Whether the scores should sum to the difference of these two outputs."""

    errors: np.ndarray | None = None
    """The standard error of the score of every word, `(words,)`; None for methods without sampling."""


@dataclass(frozen=True)
class Method(abc.ABC):
    """An attribution method; its fields are its settings. Abstract."""

    name: ClassVar[str]
    """The name in settings and on the command line."""

    title: ClassVar[str]
    """The name in texts."""

    reads_baseline: ClassVar[bool] = True
    """Whether a baseline changes its scores."""

    @abc.abstractmethod
    def scores(self, function: SubjectFunction) -> Scores:
        """The scores of the tokens of a subject."""

    def settings(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def spread_over_tokens(function: SubjectFunction, of_words: np.ndarray) -> np.ndarray:
    """The scores of words as scores of tokens, `(rows, length)`, divided equally among the tokens of a word in all rows."""
    counts = np.bincount(function.words[function.words >= 0], minlength=function.word_count)
    shares = np.append(of_words / np.maximum(counts, 1), 0.0)
    return shares[function.words]


def quadrature(rule: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature points in [0, 1] and weights that sum to 1, for the mean of a function: float64 `(steps,)` each.

    Args:
        rule: "gauss_legendre", exact for polynomials of degree 2·steps − 1; or a Riemann sum, "middle", "left" or "right"; or
            "trapezoid".
        steps: number of points.

    Raises:
        ValueError: the rule is unknown or there are too few steps.

    Example:

    >>> points, weights = quadrature("gauss_legendre", 2)
    >>> round(float(weights @ points**3), 6)
    0.25
    """
    least = 2 if rule == "trapezoid" else 1
    if rule not in RULES or steps < least:
        raise ValueError(f"rule must be one of {', '.join(RULES)} and steps at least {least}; got {rule!r} and {steps}.")
    if rule == "gauss_legendre":
        points, weights = np.polynomial.legendre.leggauss(steps)
        return (points + 1) / 2, weights / 2
    if rule == "trapezoid":
        weights = np.full(steps, 1 / (steps - 1))
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, steps), weights
    return (np.arange(steps) + {"left": 0.0, "middle": 0.5, "right": 1.0}[rule]) / steps, np.full(steps, 1 / steps)


@dataclass(frozen=True)
class GradientTimesInput(Method):
    """The gradient with respect to the vector of a token, times that vector.

        score of a token = Σ_i ∂value/∂vector_i · vector_i

    Reference: Shrikumar et al., 2017, section 2 (https://arxiv.org/abs/1605.01713); Denil et al., 2014, section 3
    (https://arxiv.org/abs/1412.6815).
    """

    name: ClassVar[str] = "gradient_x_input"
    title: ClassVar[str] = "gradient × input"
    reads_baseline: ClassVar[bool] = False

    def scores(self, function: SubjectFunction) -> Scores:
        values, gradients = function.values_and_gradients(1, lambda _: function.vectors[None])
        return Scores(_products(gradients[0], function.vectors, function), float(values[0]))


@dataclass(frozen=True)
class IntegratedGradients(Method):
    """The mean gradient along the line from the baseline to the text, times the difference of the two.

        score of a token = Σ_i (vector_i − baseline_i) · ∫ ∂value/∂vector_i (baseline + α (vector − baseline)) dα

    The scores sum to value(text) − value(baseline), up to the error of the quadrature.

    Args:
        steps: number of points at which the gradient is computed.
        rule: see `quadrature`.

    Reference: Sundararajan et al., 2017, section 3 (https://arxiv.org/abs/1703.01365).
    """

    name: ClassVar[str] = "integrated_gradients"
    title: ClassVar[str] = "integrated gradients"

    steps: int = 50
    rule: str = "gauss_legendre"

    def scores(self, function: SubjectFunction) -> Scores:
        points, weights = quadrature(self.rule, self.steps)
        difference = function.vectors - function.absent
        on_line = lambda part: function.absent + points[part, None, None, None].astype("float32") * difference  # noqa: E731
        mean = np.zeros(function.vectors.shape)
        _, gradients = function.values_and_gradients(len(points), on_line)
        for weight, gradient in zip(weights, gradients, strict=True):
            mean += weight * gradient
        ends = np.stack([function.vectors, function.absent])
        value, at_baseline = function.values(2, lambda part: ends[part]).tolist()
        return Scores(_products(mean, difference, function), value, at_baseline, complete=True)


def _products(gradient, vectors, function):
    """The dot product per token, 0 at padding."""
    products = np.einsum("rlw,rlw->rl", np.asarray(gradient, "float64"), np.asarray(vectors, "float64"))
    for row, ids in enumerate(function.subject.tokens.ids):
        products[row, len(ids) :] = 0
    return products


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """How much the output decreases if one word is replaced by the baseline.

        score of a word = value(text) − value(text without the word)

    Reference: Li et al., 2016, section 3 (https://arxiv.org/abs/1612.08220).
    """

    name: ClassVar[str] = "leave_one_out"
    title: ClassVar[str] = "leave one out"

    def scores(self, function: SubjectFunction) -> Scores:
        words = function.word_count
        present = np.concatenate([np.ones((1, words), bool), ~np.eye(words, dtype=bool), np.zeros((1, words), bool)])
        values = _values(function, present)
        return Scores(spread_over_tokens(function, values[0] - values[1:-1]), float(values[0]), float(values[-1]))


@dataclass(frozen=True)
class Shapley(Method):
    """The marginal contribution of a word to the words before it, averaged over all orders.

        score of a word w = Σ_S |S|! (n − |S| − 1)! / n! · (value(S ∪ {w}) − value(S))

    The scores sum to value(text) − value(baseline). With few words all subsets are evaluated; with more, permutations are sampled,
    each with its reverse, and the scores have a standard error.

    Args:
        samples: number of permutations to sample, an even number.
        exact_words: maximum number of words for which all subsets are evaluated, 2 to that power.
        seed: seed of the permutations.

    Reference: Shapley, 1953; Castro et al., 2009, for the sampling; Mitchell et al., 2022, section 3
    (https://arxiv.org/abs/2104.12199), for permutations with their reverse.
    """

    name: ClassVar[str] = "shapley"
    title: ClassVar[str] = "Shapley values"

    samples: int = 64
    exact_words: int = 8
    seed: int = 0

    def scores(self, function: SubjectFunction) -> Scores:
        if self.samples < 4 or self.samples % 2:
            raise ValueError(f"samples must be an even number of at least 4, for a standard error; got {self.samples}.")
        if not 0 <= self.exact_words <= MOST_EXACT:
            raise ValueError(f"exact_words must be from 0 to {MOST_EXACT}; got {self.exact_words}.")
        words = function.word_count
        scores, ends, errors = self._exact(function) if words <= self.exact_words else self._sampled(function)
        return Scores(spread_over_tokens(function, scores), ends[1], ends[0], complete=True, errors=errors)

    def _exact(self, function):
        words = function.word_count
        sets = (np.arange(2**words)[:, None] >> np.arange(words)) & 1
        values = _values(function, sets.astype(bool))
        scores, sizes = np.zeros(words), sets.sum(1)
        for word in range(words):
            without = np.flatnonzero(sets[:, word] == 0)
            added = values[without + 2**word] - values[without]
            weights = [1 / (words * math.comb(words - 1, size)) for size in sizes[without].tolist()]
            scores[word] = added @ np.array(weights)
        return scores, (float(values[0]), float(values[-1])), None

    def _sampled(self, function):
        words, random = function.word_count, np.random.default_rng(self.seed)
        halves = np.stack([random.permutation(words) for _ in range(self.samples // 2)])
        orders = np.stack([halves, halves[:, ::-1]], axis=1).reshape(-1, words)
        # Row k of a permutation contains its first k words.
        present = np.zeros((len(orders), words + 1, words), bool)
        for number, order in enumerate(orders):
            for size in range(words):
                present[number, size + 1] = present[number, size]
                present[number, size + 1, order[size]] = True
        values = _values(function, present.reshape(-1, words)).reshape(len(orders), words + 1)
        added = np.zeros((len(orders), words))
        np.put_along_axis(added, orders, np.diff(values, axis=1), axis=1)
        pairs = added.reshape(-1, 2, words).mean(1)  # a permutation and its reverse are not independent
        errors = pairs.std(0, ddof=1) / len(pairs) ** 0.5
        return pairs.mean(0), (float(values[0, 0]), float(values[0, -1])), errors


def _values(function, present):
    """The outputs for subsets of words, each evaluated once, `(sets,)`."""
    distinct, numbers = np.unique(present, axis=0, return_inverse=True)
    return function.values(len(distinct), lambda part: function.with_words(distinct[part]))[numbers.reshape(-1)]


@dataclass(frozen=True)
class AttentionRollout(Method):
    """The product of the mean attention of all layers, read at the tokens that the answer is read from; independent of the target.

        Ã = ½ mean over heads of attention + ½ identity        scores = reads · Ã_L · ... · Ã_1

    The identity is for the residual connection. The scores sum to 1, special tokens included.

    Reference: Abnar and Zuidema, 2020, sections 3 and 3.1 (https://arxiv.org/abs/2005.00928).
    """

    name: ClassVar[str] = "rollout"
    title: ClassVar[str] = "attention rollout"
    reads_baseline: ClassVar[bool] = False

    def scores(self, function: SubjectFunction) -> Scores:
        maps = attention_maps(function.subject.model, dict(function.subject.inputs))
        mean = maps.probabilities.mean(axis=2).astype("float64")  # (layers, rows, query, key)
        mixed = 0.5 * mean + 0.5 * np.eye(mean.shape[-1])
        relevance = function.subject.reads.astype("float64")
        for layer in mixed[::-1]:
            relevance = np.einsum("rq,rqk->rk", relevance, layer)
        return Scores(relevance, function.value(function.vectors))


METHODS: dict[str, Any] = {
    method.name: method for method in (IntegratedGradients, GradientTimesInput, AttentionRollout, LeaveOneOut, Shapley)
}


def method_of(method: str | Method, **options: Any) -> Method:
    """A method by its name, with its settings; a `Method` is returned unchanged.

    Args:
        method: a name in `METHODS`, with - or _ between its parts, or a `Method`.
        **options: the settings of the method.

    Raises:
        ValueError: the name or an option is unknown.
    """
    if isinstance(method, Method):
        if options:
            raise ValueError(f"settings of a Method object must be set in the object; got {', '.join(options)} in addition.")
        return method
    name = str(method).replace("-", "_")
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
    names = [field.name for field in fields(METHODS[name])]
    unknown = [option for option in options if option not in names]
    if unknown:
        has = f"has the settings {', '.join(names)}" if names else "has no settings"
        raise ValueError(f"{name} {has}; got {', '.join(unknown)}.")
    return METHODS[name](**options)
