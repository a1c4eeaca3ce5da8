"""The uncertainty of a scaling law: leave-one-out predictions of every run, and intervals from a residual bootstrap."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.recipes.planning.scaling_law import ScalingLaw, fit_law, fit_laws

FITS = 200
# The fraction of the fits that an interval contains.
COVERAGE = 0.9


@dataclass(frozen=True)
class FittedLaw:
    """A law, the runs it was fitted to, and its bootstrap replicates."""

    law: ScalingLaw
    """The law fitted to all runs."""

    without: npt.NDArray
    """The loss of every run, predicted by a fit to all other runs, in nats."""

    errors: npt.NDArray
    """The log of the loss of every run, minus the log of this prediction."""

    others: tuple[ScalingLaw, ...]
    """Fits to the losses of the law with errors resampled from these."""

    def interval(self, parameters: float, tokens: float, seed: int = 0) -> tuple[float, float]:
        """A 90 % prediction interval for the loss of a new run.

        It covers the variation between the fits and the error of a single run.

        Args:
            parameters: parameters of the model.
            tokens: tokens of its training.
            seed: the seed of the resampled errors.
        """
        logs = np.log([float(law.loss(parameters, tokens)) for law in self.others])
        logs += np.random.default_rng([seed, 1]).choice(self.errors, len(logs))
        low, high = np.exp(np.quantile(logs, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))
        return float(low), float(high)

    def interval_of(self, name: str) -> tuple[float, float]:
        """A 90 % interval for a parameter of the law, such as "token_exponent"."""
        values = [getattr(law, name) for law in self.others]
        low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
        return float(low), float(high)


def fit_with_uncertainty(
    parameters: npt.ArrayLike, tokens: npt.ArrayLike, losses: npt.ArrayLike, fits: int = FITS, seed: int = 0
) -> FittedLaw:
    """Fit a law, refit it with each run left out once, and refit it to losses with resampled errors.

    The errors are those of left-out runs, which are larger than residuals: with only a few more runs than parameters, a fit comes
    close to every run it is fitted to.

    Args:
        parameters, tokens, losses: arrays with a number for every run.
        fits: number of fits for the intervals.
        seed: the seed of the resampled errors.

    Reference: Efron and Tibshirani, 1993, "An Introduction to the Bootstrap", section 9.5, for bootstrapping residuals.
    """
    sizes, counts, losses = (np.asarray(values, "float64") for values in (parameters, tokens, losses))
    law = fit_law(sizes, counts, losses)
    without = np.empty(len(losses))
    for i in range(len(losses)):
        kept = np.arange(len(losses)) != i
        left = fit_law(sizes[kept], counts[kept], losses[kept], terms=law.terms)
        without[i] = left.loss(sizes[i], counts[i])
    errors = np.log(losses) - np.log(without)
    random, expected = np.random.default_rng(seed), law.loss(sizes, counts)
    drawn = expected * np.exp(random.choice(errors, (fits, len(errors))))
    return FittedLaw(law, without, errors, tuple(fit_laws(sizes, counts, drawn, law)))
