"""Linear probes: multinomial logistic regression on vectors, to measure what they encode."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# Candidates of `choose_l2`, from strong to weak: each fit starts from the previous one.
L2S = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)

# Directions with at most this fraction of the largest variance are treated as rounding errors.
NEGLIGIBLE = 1e-12

# Number of gradient differences in the approximate Hessian.
HISTORY = 10


@dataclass(frozen=True)
class LinearProbe:
    """A linear classifier on vectors: softmax(vectors · kernel + bias)."""

    kernel: np.ndarray
    """`(width, labels)`, float64."""

    bias: np.ndarray
    """`(labels,)`, float64."""

    steps: int = 0
    """The number of steps of the fit."""

    def log_probabilities(self, vectors: Any) -> np.ndarray:
        """The logarithms of the probabilities of the labels, `(vectors, labels)`."""
        return _log_softmax(np.asarray(vectors, "float64") @ self.kernel + self.bias)

    def predict(self, vectors: Any) -> np.ndarray:
        """The index of the most probable label of each vector, `(vectors,)`; the first in case of ties."""
        return self.log_probabilities(vectors).argmax(-1)


class _Design(NamedTuple):
    """Vectors in the coordinates of their principal components, in which the fit for any l2 is well conditioned."""

    scores: np.ndarray  # (n, components)
    components: np.ndarray  # (width, components), orthonormal
    variances: np.ndarray  # (components,)
    mean: np.ndarray  # (width,)


def fit_linear_probe(vectors: Any, labels: Any, num_labels: int, l2: float, *, tolerance: float = 1e-7) -> LinearProbe:
    """Fit a multinomial logistic regression, deterministically.

    Minimises

        mean over n of −log softmax(vectors · kernel + bias)[label] + l2 / 2 · ‖kernel‖²

    which is scikit-learn's `LogisticRegression(C=1 / (l2 · n))` for three or more labels; for two, where scikit-learn has one
    weight vector instead of two, it is `C=2 / (l2 · n)`. The bias is not penalised. To penalise all features equally, standardise
    them first.

    L-BFGS (Nocedal, 1980, https://doi.org/10.1090/S0025-5718-1980-0572855-7) in the coordinates in which Böhning's bound of the
    Hessian is the identity (1992, https://doi.org/10.1007/BF00048682): the steps do not depend on the scale of the features.

    Args:
        vectors: `(n, width)`, finite numbers.
        labels: `(n,)`, integers from 0 to below `num_labels`.
        num_labels: the number of labels, at least 2; labels that do not occur become unlikely.
        l2: the strength of the penalty, above 0.
        tolerance: the fit stops when no derivative in these coordinates is larger.

    Raises:
        ValueError: shapes do not agree, a label is out of range, a number is not finite, or `l2` is not above 0.

    Example:

    >>> probe = fit_linear_probe([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], 2, l2=0.1)
    >>> probe.predict([[0.5], [2.5]]).tolist()
    [0, 1]
    """
    vectors, labels = checked(vectors, labels, num_labels)
    _check_l2(l2)
    design = _design(vectors)
    kernel, bias, steps = _fit(design, labels, num_labels, l2, tolerance)
    return _probe(design, kernel, bias, steps)


def choose_l2(
    vectors: Any, labels: Any, num_labels: int, held_out: Any, *, candidates: Sequence[float] = L2S, tolerance: float = 1e-6
) -> float:
    """The strength of the penalty with the lowest loss on held-out examples.

    Args:
        vectors, labels, num_labels: as for `fit_linear_probe`.
        held_out: `(n,)`, True for the examples to evaluate on instead of fitting, such as `every_fifth(n)`.
        candidates: strengths to try.
        tolerance: as for `fit_linear_probe`.

    Returns:
        The candidate with the lowest mean cross-entropy on the held-out examples; the strongest in case of ties.

    Raises:
        ValueError: as for `fit_linear_probe`; or no examples are held out, or all.
    """
    vectors, labels = checked(vectors, labels, num_labels)
    held_out = np.asarray(held_out)
    if held_out.shape != labels.shape or held_out.dtype != bool or held_out.all() or not held_out.any():
        raise ValueError(
            f"held_out must be {len(labels)} booleans, some True and some False; got {held_out.sum()} of shape {held_out.shape}."
        )
    candidates = sorted(candidates, reverse=True)
    for l2 in candidates:
        _check_l2(l2)
    design = _design(vectors[~held_out])
    scores, judged, answers = (vectors[held_out] - design.mean) @ design.components, labels[held_out], labels[~held_out]
    best, start = (np.inf, candidates[0]), None
    for l2 in candidates:
        kernel, bias, _ = _fit(design, answers, num_labels, l2, tolerance, start)
        start = kernel, bias
        log_probabilities = _log_softmax(scores @ kernel + bias)[np.arange(len(judged)), judged]
        best = min(best, (-log_probabilities.mean(), l2), key=lambda pair: pair[0])
    return best[1]


def every_fifth(groups: Any) -> np.ndarray:
    """Which examples to hold out: those of every fifth group, so that no group is in both parts.

    Args:
        groups: the index of each example's group, such as its text; or a number of examples, each in a separate group.

    Example:

    >>> every_fifth([0, 0, 1, 2, 3, 4, 4, 5]).tolist()
    [False, False, False, False, False, True, True, False]
    """
    groups = np.arange(groups) if np.ndim(groups) == 0 else np.unique(groups, return_inverse=True)[1]
    return groups % 5 == min(4, int(groups.max(initial=0)))


def standardised(vectors: Any, *further: Any) -> tuple[np.ndarray, ...]:
    """Vectors standardised to mean 0 and variance 1 per feature, and further arrays shifted and scaled in the same way, in float64.

    Args:
        vectors: `(n, width)`, which determine means and deviations; constant features become 0.
        further: further arrays `(any, width)`.
    """
    first = np.asarray(vectors, "float64")
    mean, deviation = first.mean(0), first.std(0)
    constant = deviation <= 1e-9 * np.maximum(1.0, np.abs(mean))
    scale = np.where(constant, 0.0, 1 / np.where(constant, 1.0, deviation))
    return tuple((np.asarray(array, "float64") - mean) * scale for array in (vectors, *further))


def checked(vectors, labels, num_labels):
    """Vectors in float64 and labels as integers; else a ValueError, see `fit_linear_probe`."""
    vectors, labels = np.asarray(vectors, "float64"), np.asarray(labels)
    if vectors.ndim != 2 or labels.shape != vectors.shape[:1] or not vectors.size:
        raise ValueError(f"expected vectors (n, width) and n labels; got shapes {vectors.shape} and {labels.shape}.")
    if not np.isfinite(vectors).all():
        raise ValueError("vectors must be finite numbers; got infinity or NaN.")
    if num_labels < 2 or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= num_labels:
        raise ValueError(
            f"labels must be integers from 0 to below num_labels, at least 2; got {labels.min()} to {labels.max()} of {num_labels}."
        )
    return vectors, labels.astype("int64")


def _check_l2(l2):
    if not 0 < l2 < np.inf:
        raise ValueError(f"l2 must be a number above 0; got {l2}.")


def _design(vectors):
    """The principal components of vectors, by diagonalising the smaller of the two Gram matrices."""
    mean = vectors.mean(0)
    centred, n = vectors - mean, len(vectors)
    wide = vectors.shape[1] > n
    variances, basis = np.linalg.eigh((centred @ centred.T if wide else centred.T @ centred) / n)
    real = variances > NEGLIGIBLE * max(variances[-1], np.finfo("float64").tiny)
    variances, basis = variances[real], basis[:, real]
    if wide:
        return _Design(basis * np.sqrt(n * variances), centred.T @ basis / np.sqrt(n * variances), variances, mean)
    return _Design(centred @ basis, basis, variances, mean)


def _probe(design, kernel, bias, steps):
    kernel = design.components @ kernel
    return LinearProbe(kernel, bias - design.mean @ kernel, steps)


def _fit(design, labels, num_labels, l2, tolerance, start=None):
    """Kernel and bias in the coordinates of the components, and the number of steps."""
    n = len(labels)
    # The Hessian is at most (variance / 2 + l2) along a component and 1 / 2 along the bias.
    scale = np.append(1 / np.sqrt(design.variances / 2 + l2), np.sqrt(2.0))[:, None]
    rows = np.arange(n)

    def objective(parameters):
        weights = scale * parameters
        logs = _log_softmax(design.scores @ weights[:-1] + weights[-1])
        value = -logs[rows, labels].mean() + l2 / 2 * (weights[:-1] ** 2).sum()
        errors = np.exp(logs)
        errors[rows, labels] -= 1
        gradient = np.vstack([design.scores.T @ errors / n + l2 * weights[:-1], errors.mean(0)])
        return value, scale * gradient

    first = np.zeros((len(scale), num_labels)) if start is None else np.vstack(start) / scale
    parameters, steps = minimise(objective, first, tolerance)
    weights = scale * parameters
    return weights[:-1], weights[-1], steps


def minimise(objective, start, tolerance, max_steps=2000):
    """The minimum of a smooth convex function by L-BFGS with backtracking.

    Args:
        objective: a function from an array to a value and its gradient, an array of the same shape.
        start: the array to start from.
        tolerance: stop when no derivative is larger.
        max_steps: maximum number of steps.

    Returns:
        The array, and the number of steps.
    """
    x, (value, gradient), history = start, objective(start), []
    for step in range(max_steps):
        if np.abs(gradient).max() <= tolerance:
            return x, step
        direction = -_times_inverse_hessian(history, gradient)
        slope, length = (direction * gradient).sum(), 1.0
        while True:
            moved = x + length * direction
            new_value, new_gradient = objective(moved)
            if new_value <= value + 1e-4 * length * slope:
                break
            length /= 2
            if length < 1e-10:  # no lower value within the precision of float64
                return x, step
        change, turn = moved - x, new_gradient - gradient
        if (change * turn).sum() > 0:
            history = [*history[1 - HISTORY :], (change, turn)]
        x, value, gradient = moved, new_value, new_gradient
    return x, max_steps


def _times_inverse_hessian(history, gradient):
    """The two-loop recursion of L-BFGS."""
    direction, factors = gradient.copy(), []
    for change, turn in reversed(history):
        factor = (change * direction).sum() / (change * turn).sum()
        direction -= factor * turn
        factors.append(factor)
    if history:
        change, turn = history[-1]
        direction *= (change * turn).sum() / (turn * turn).sum()
    for (change, turn), factor in zip(history, reversed(factors), strict=True):
        direction += (factor - (turn * direction).sum() / (change * turn).sum()) * change
    return direction


def _log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
