"""Linear models of frozen vectors, in NumPy and float64: logistic regression by Newton's method, and ridge regression.

A probe says how much of a label a linear function finds in vectors. Both minimise a convex function, so that the result depends on
the examples alone, on no seed and no rate. How much weights are penalised is chosen on every fifth example, then all are used.

Reference: Alain and Bengio, 2017, "Understanding intermediate layers using linear classifier probes"
(https://arxiv.org/abs/1610.01644).
"""

import numpy as np
import numpy.typing as npt

# The penalties to choose from, the strongest first: each begins at the solution of the one before it.
PENALTIES = tuple(10.0**power for power in range(1, -5, -1))

# One in five examples is held back to choose the penalty.
HELD_BACK = 5

# Newton's method ends where the gradient is this part of what it was at zero.
TOLERANCE = 1e-6
_STEPS, _INNER_STEPS, _HALVINGS = 50, 200, 30


class Standardised:
    """Features with mean 0 and variance 1 among the training examples, and a last column of ones.

    Args:
        features: those of the training examples, `(examples, features)`.
    """

    def __init__(self, features: npt.NDArray) -> None:
        self.mean = features.mean(axis=0, dtype="float64")
        spread = features.std(axis=0, dtype="float64")
        self.scale = 1 / np.where(spread > 1e-12 * (1 + np.abs(self.mean)), spread, 1.0)

    def __call__(self, features: npt.NDArray) -> npt.NDArray:
        """The columns of examples, `(examples, features + 1)`."""
        columns = np.empty((len(features), features.shape[1] + 1))
        np.multiply(features - self.mean, self.scale, out=columns[:, :-1])
        columns[:, -1] = 1.0
        return columns


def logistic_regression(
    columns: npt.NDArray, labels: npt.NDArray, count: int, penalty: float, start: npt.NDArray | None = None
) -> npt.NDArray:
    """The weights of a multinomial logistic regression.

        minimise   mean over examples of −log p(label) + penalty / 2 · Σ weights²

    The last column, that of ones, is not penalised. Steps are Newton's, solved by conjugate gradients, which need products with
    the second derivatives and never these themselves, and are halved until the function falls enough (Armijo).

    Args:
        columns: `(examples, columns)`, float64.
        labels: whole numbers below `count`, `(examples,)`.
        count: number of classes.
        penalty: a number above 0.
        start: weights to begin with; None for zeros.

    Returns:
        Weights `(columns, count)`.

    Reference: Nocedal and Wright, 2006, "Numerical Optimization", section 7.1, for Newton's method with conjugate gradients.
    """
    size = len(columns)
    truth = np.zeros((size, count))
    truth[np.arange(size), labels] = 1.0
    penalties = np.full((columns.shape[1], 1), penalty)
    penalties[-1] = 0.0
    weights = np.zeros((columns.shape[1], count)) if start is None else start
    limit = TOLERANCE * np.linalg.norm(columns.T @ (1 / count - truth) / size)
    value, shares = _objective(columns, truth, weights, penalties)
    for _ in range(_STEPS):
        gradient = columns.T @ (shares - truth) / size + penalties * weights
        length = np.linalg.norm(gradient)
        if length <= limit:
            break
        step = _newton_step(columns, shares, penalties, gradient, min(0.1, np.sqrt(length)) * length)
        slope = float(np.sum(gradient * step))
        for _ in range(_HALVINGS):
            moved, others = _objective(columns, truth, weights + step, penalties)
            if moved <= value + 1e-4 * slope:
                break
            step, slope = step / 2, slope / 2
        else:  # no better number is left between them
            break
        weights, value, shares = weights + step, moved, others
    return weights


def _objective(columns, truth, weights, penalties):
    """The value of the function, and the probabilities `(examples, classes)`."""
    logits = columns @ weights
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    sums = shares.sum(axis=1, keepdims=True)
    losses = np.log(sums[:, 0]) - np.einsum("ec,ec->e", logits, truth)
    return float(losses.mean() + 0.5 * np.sum(penalties * weights**2)), shares / sums


def _newton_step(columns, shares, penalties, gradient, tolerance):
    """The solution of (second derivatives) · step = −gradient, as far as the tolerance asks for."""

    def times(direction):
        moved = columns @ direction
        moved -= np.einsum("ec,ec->e", shares, moved)[:, None]
        return columns.T @ (shares * moved) / len(columns) + penalties * direction

    step, left = np.zeros_like(gradient), -gradient
    direction, size = left, float(np.sum(left**2))
    for _ in range(_INNER_STEPS):
        product = times(direction)
        curvature = float(np.sum(direction * product))
        if curvature <= 0:  # only by rounding: the function is convex
            break
        step = step + size / curvature * direction
        left = left - size / curvature * product
        before, size = size, float(np.sum(left**2))
        if np.sqrt(size) <= tolerance:
            break
        direction = left + size / before * direction
    return step


def ridge_regression(columns: npt.NDArray, numbers: npt.NDArray, penalties: tuple[float, ...]) -> npt.NDArray:
    """The weights of ridge regressions, in closed form from one decomposition.

        minimise   mean over examples of ½ (prediction − number)² + penalty / 2 · Σ weights²

    Args:
        columns: `(examples, columns)`; the last one, that of ones, is not penalised, and the others have mean 0.
        numbers: `(examples,)`.
        penalties: numbers above 0.

    Returns:
        Weights `(columns, penalties)`.

    Reference: Hoerl and Kennard, 1970, "Ridge regression" (https://doi.org/10.1080/00401706.1970.10488634).
    """
    left, values, right = np.linalg.svd(columns[:, :-1], full_matrices=False)
    projected = left.T @ (numbers - numbers.mean())
    weights = [right.T @ (values * projected / (values**2 + len(columns) * penalty)) for penalty in penalties]
    return np.vstack([np.stack(weights, axis=1), np.full((1, len(penalties)), numbers.mean())])


def predicted_labels(train: npt.NDArray, labels: npt.NDArray, count: int, test: npt.NDArray) -> npt.NDArray:
    """The labels that a logistic regression gives to test examples.

    Args:
        train: features of the training examples, `(examples, features)`, in random order.
        labels: their labels, whole numbers below `count`.
        count: number of classes.
        test: features to predict the labels of.

    Returns:
        Whole numbers, `(test examples,)`.
    """
    held = np.arange(len(train)) % HELD_BACK == HELD_BACK - 1
    scale, weights, best = Standardised(train[~held]), None, (-1, PENALTIES[0])
    kept, others = scale(train[~held]), scale(train[held])
    for penalty in PENALTIES:
        weights = logistic_regression(kept, labels[~held], count, penalty, weights)
        right = int(np.sum(np.argmax(others @ weights, axis=1) == labels[held]))
        best = max(best, (right, penalty))  # of equal ones the stronger
    scale = Standardised(train)
    weights = logistic_regression(scale(train), labels, count, best[1])
    return np.argmax(scale(test) @ weights, axis=1)


def predicted_numbers(train: npt.NDArray, numbers: npt.NDArray, test: npt.NDArray) -> npt.NDArray:
    """The numbers that a ridge regression gives to test examples; for the arguments, see `predicted_labels`."""
    held = np.arange(len(train)) % HELD_BACK == HELD_BACK - 1
    scale = Standardised(train[~held])
    weights = ridge_regression(scale(train[~held]), numbers[~held], PENALTIES)
    errors = np.mean((scale(train[held]) @ weights - numbers[held][:, None]) ** 2, axis=0)
    scale, penalty = Standardised(train), PENALTIES[int(np.argmin(errors))]
    return (scale(test) @ ridge_regression(scale(train), numbers, (penalty,)))[:, 0]
