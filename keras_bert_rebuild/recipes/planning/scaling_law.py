"""The scaling law of a corpus: the held-out loss as a function of parameters and tokens, fitted to a few runs.

    L(N, D) = E + A / N^α + B / D^β

with N parameters and D tokens of training. E is the irreducible loss; the second term is the loss due to the limited size of the
model, the third the loss due to the limited number of tokens. Runs of one size do not determine the second term, and runs with
equal tokens not the third: the law is then fitted without that term, and E includes it.

Reference: Hoffmann et al., 2022, section 3.3 and appendix D.3 (https://arxiv.org/abs/2203.15556).
"""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

# The delta of Huber's loss, as in the paper: larger residuals of the logarithm count linearly, so that outliers weigh less.
DELTA = 1e-3
# Numbers of parameters or tokens whose ratio is below this are treated as equal.
SAME = 1.1
# The minimum of different sizes, or numbers of tokens, to determine a factor, its exponent and E.
LEAST = 3

# Starting points of fits: exponents, and E as a fraction of the lowest loss.
_EXPONENTS, _FLOORS = (0.1, 0.3, 0.6, 1.2), (0.2, 0.5, 0.8, 0.95)
_ROUNDS = 300
# Bounds of exponents: beyond them, a term is a step function or constant.
_LOW, _HIGH = 0.01, 5.0


@dataclass(frozen=True)
class ScalingLaw:
    """A fitted law; without the term for parameters, A and α are None; without that for tokens, B and β are None."""

    floor: float
    """E, in nats."""

    size_factor: float | None
    """A."""

    size_exponent: float | None
    """α."""

    token_factor: float | None
    """B."""

    token_exponent: float | None
    """β."""

    @cached_property
    def terms(self) -> tuple[bool, bool]:
        """Whether it has a term for parameters, and one for tokens."""
        return self.size_exponent is not None, self.token_exponent is not None

    def loss(self, parameters: npt.ArrayLike, tokens: npt.ArrayLike) -> npt.NDArray:
        """The loss, in nats, of models of these sizes after these numbers of tokens; numbers, or arrays of the same shape."""
        found = np.asarray(self.floor)
        for values, factor, exponent in (
            (parameters, self.size_factor, self.size_exponent),
            (tokens, self.token_factor, self.token_exponent),
        ):
            if factor is not None and exponent is not None:
                found = found + factor / np.asarray(values, "float64") ** exponent
        return found

    def optimum(self, operations: float) -> tuple[float, float]:
        """The parameters and tokens of minimum loss for a number of training operations, 6 N D.

            N = G (C / 6)^(β / (α + β)),   D = (C / 6) / N,   G = (α A / (β B))^(1 / (α + β))

        Args:
            operations: C.

        Raises:
            ValueError: the law has no term for parameters, or none for tokens.

        Reference: Hoffmann et al., 2022, section 3.3, equation 4.
        """
        a, alpha, b, beta = self.size_factor, self.size_exponent, self.token_factor, self.token_exponent
        if a is None or alpha is None or b is None or beta is None:
            raise ValueError("an optimum needs a law with a term for parameters and one for tokens.")
        logs = (np.log(alpha * a / (beta * b)) + beta * np.log(operations / 6)) / (alpha + beta)
        return float(np.exp(logs)), float(np.exp(np.log(operations / 6) - logs))


def fit_law(
    parameters: npt.ArrayLike,
    tokens: npt.ArrayLike,
    losses: npt.ArrayLike,
    delta: float = DELTA,
    terms: tuple[bool, bool] | None = None,
) -> ScalingLaw:
    """Fit the law to runs as the paper does, by minimising the sum of Huber's loss of the residuals of log L.

    The method is Levenberg-Marquardt with weights for Huber's loss. The best least-squares fit from 64 starting points, or 16 for
    one term, is refined with smaller and smaller `delta`.

    Args:
        parameters, tokens, losses: arrays with a number for every run; losses in nats.
        delta: larger residuals count linearly, smaller ones as squares.
        terms: whether to fit a term for parameters, and one for tokens; None for those that the runs determine (`identified`).

    Raises:
        ValueError: there are too few runs, they differ too little, or a number is not above 0.
    """
    sizes, counts, losses = (np.asarray(values, "float64") for values in (parameters, tokens, losses))
    if not all((values > 0).all() and np.isfinite(values).all() for values in (sizes, counts, losses)):
        raise ValueError("parameters, tokens and losses of a scaling law must be above 0.")
    terms = identified(sizes, counts) if terms is None else terms
    columns, centres = _centred(sizes, counts, terms)
    starts = np.array(list(_starts(columns, losses)))
    found, values = _descended(columns, np.log(losses)[None], starts, 1.0)
    found = found[[np.argmin(values)]]
    for limit in np.geomspace(0.1, delta, 5):
        found, _ = _descended(columns, np.log(losses)[None], found, limit)
    return _law(found[0], centres, terms)


def fit_laws(
    parameters: npt.ArrayLike, tokens: npt.ArrayLike, many: npt.ArrayLike, near: ScalingLaw, delta: float = DELTA
) -> list[ScalingLaw]:
    """Fit a law to each of many lists of losses of the same runs, all starting from a law that is nearby.

    Args:
        parameters, tokens: arrays with a number for every run.
        many: losses `(lists, runs)`.
        near: the law to start from, whose terms are fitted.
        delta: as for `fit_law`.
    """
    sizes, counts, losses = (np.asarray(values, "float64") for values in (parameters, tokens, many))
    columns, centres = _centred(sizes, counts, near.terms)
    found = np.repeat(_vector(near, centres)[None], len(losses), axis=0)
    for limit in (1.0, delta):
        found, _ = _descended(columns, np.log(losses), found, limit)
    return [_law(vector, centres, near.terms) for vector in found]


def _centred(sizes, counts, terms):
    """The logs of the variables of the terms, centred so that exponents and factors are less correlated, and their means."""
    logs = [np.log(values) for values, has in zip((sizes, counts), terms, strict=True) if has]
    centres = [float(values.mean()) for values in logs]
    return np.stack([values - centre for values, centre in zip(logs, centres, strict=True)]), centres


def identified(parameters: npt.ArrayLike, tokens: npt.ArrayLike) -> tuple[bool, bool]:
    """Whether runs determine the term for parameters, and the term for tokens.

    Raises:
        ValueError: they determine neither, or there are not more runs than parameters to fit.
    """
    different = [_different(values) for values in (parameters, tokens)]
    terms = different[0] > 1, different[1] > 1
    shown = f"{different[0]} size{'s' * (different[0] != 1)} and {different[1]} number{'s' * (different[1] != 1)} of tokens"
    if not any(terms):
        raise ValueError(f"a scaling law needs runs of different sizes or with different numbers of tokens; got {shown}.")
    for has, count, what in zip(terms, different, ("sizes", "numbers of tokens"), strict=True):
        if has and count < LEAST:
            raise ValueError(
                f"a scaling law needs runs of at least {LEAST} different {what}, or all of one; got {shown}: leave runs out, or "
                "train more."
            )
    needed = 2 + 2 * sum(terms)
    if len(np.asarray(parameters)) < needed:
        raise ValueError(f"a scaling law of {needed - 1} numbers needs at least {needed} runs; got {len(np.asarray(parameters))}.")
    return terms


def _different(values):
    """How many numbers differ by more than a tenth."""
    ordered = np.sort(np.asarray(values, "float64"))
    return 1 + int(np.sum(ordered[1:] > SAME * ordered[:-1]))


def _starts(columns, losses):
    """Starting vectors: log E, then for each term the log of its value at the centre and the log of its exponent."""
    for exponents in itertools.product(_EXPONENTS, repeat=len(columns)):
        powers = np.exp(-np.array(exponents)[:, None] * columns)
        for fraction in _FLOORS:
            floor = fraction * losses.min()
            factors = np.linalg.lstsq(powers.T, losses - floor, rcond=None)[0]
            factors = np.maximum(factors, 0.01 * floor)
            pairs = zip(np.log(factors), np.log(exponents), strict=True)
            yield np.array([np.log(floor), *itertools.chain(*pairs)])


def _residuals(columns, target, vectors):
    """Residuals of the log loss `(fits, runs)`, and their derivatives `(fits, runs, parameters)`."""
    slopes = [-np.exp(exponent)[:, None] * column for column, exponent in zip(columns, vectors[:, 2::2].T, strict=True)]
    parts = [factor[:, None] + slope for factor, slope in zip(vectors[:, 1::2].T, slopes, strict=True)]
    logs = np.stack([np.broadcast_to(vectors[:, :1], parts[0].shape), *parts])
    top = logs.max(axis=0)
    total = top + np.log(np.exp(logs - top).sum(axis=0))
    shares = np.exp(logs - total)
    pairs = ((share, share * slope) for share, slope in zip(shares[1:], slopes, strict=True))
    return total - target, np.stack([shares[0], *itertools.chain(*pairs)], axis=-1)


def _descended(columns, target, vectors, delta):
    """Minimise Huber's loss by Levenberg-Marquardt, many fits at once; return their vectors and losses.

    Reference: Nocedal and Wright, 2006, "Numerical Optimization", section 10.3; Holland and Welsch, 1977, for the weights.
    """
    low, high = _limits(target, vectors.shape[1])
    vectors = np.clip(vectors, low, high)
    residuals, slopes = _residuals(columns, target, vectors)
    values, damping = _huber(residuals, delta), np.full(len(vectors), 1e-3)
    for _ in range(_ROUNDS):
        weights = np.minimum(1.0, delta / np.maximum(np.abs(residuals), 1e-300))
        normal = np.einsum("fri,fr,frj->fij", slopes, weights, slopes)
        gradient = np.einsum("fri,fr->fi", slopes, weights * residuals)
        scale = np.einsum("fii->fi", normal) + 1e-12
        matrix = normal + damping[:, None, None] * np.eye(len(low)) * scale[:, None]
        step = np.linalg.solve(matrix, -gradient[..., None])[..., 0]
        moved = np.clip(vectors + np.clip(step, -1.0, 1.0), low, high)
        others, new_slopes = _residuals(columns, target, moved)
        lower = _huber(others, delta)
        better = lower < values
        done = np.where(better, values - lower <= 1e-9 * values, damping > 1e9)
        vectors, slopes = np.where(better[:, None], moved, vectors), np.where(better[:, None, None], new_slopes, slopes)
        residuals, values = np.where(better[:, None], others, residuals), np.where(better, lower, values)
        damping = np.clip(np.where(better, damping / 8, damping * 4), 1e-10, 1e10)
        if done.all():
            break
    return vectors, values


def _limits(target, count):
    """The bounds of a vector: E from a thousandth of the lowest loss to all of it, and bounds of exponents."""
    least = float(target.min())
    low, high = np.full(count, -np.inf), np.full(count, np.inf)
    low[0], high[0] = least - np.log(1000), least
    low[2::2], high[2::2] = np.log(_LOW), np.log(_HIGH)
    return low, high


def _huber(residuals, delta):
    """Huber's loss, summed over runs: squares / 2 up to delta, and beyond it delta · (absolute value − delta / 2)."""
    sizes = np.abs(residuals)
    return np.sum(np.where(sizes <= delta, sizes**2 / 2, delta * (sizes - delta / 2)), axis=-1)


def _law(vector, centres, terms):
    pairs = []
    for factor, exponent, centre in zip(vector[1::2], np.exp(vector[2::2]), centres, strict=True):
        pairs.append((float(np.exp(factor + exponent * centre)), float(exponent)))
    found = iter(pairs)
    (size, size_exponent), (token, token_exponent) = (next(found) if has else (None, None) for has in terms)
    return ScalingLaw(float(np.exp(vector[0])), size, size_exponent, token, token_exponent)


def _vector(law, centres):
    """The vector of a law, as for `_starts`."""
    pairs = [(law.size_factor, law.size_exponent), (law.token_factor, law.token_exponent)]
    known = [pair for pair in pairs if pair[0] is not None]
    numbers = [np.log(law.floor)]
    for (factor, exponent), centre in zip(known, centres, strict=True):
        numbers += [np.log(factor) - exponent * centre, np.log(exponent)]
    return np.array(numbers)
