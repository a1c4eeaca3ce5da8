"""Gradient methods: gradient x input, and integrated gradients along the line from a baseline."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keras_bert_rebuild.interpret.method import Method, Scores
from keras_bert_rebuild.interpret.subject import SubjectFunction

RULES = ("gauss_legendre", "middle", "left", "right", "trapezoid")


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
