"""How much a scaling law can be trusted: each run predicted from the others, and intervals from fits to runs with drawn errors."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.recipes.planning.scaling_law import ScalingLaw, fit_law, fit_laws

FITS = 200
# The part of the fits that an interval contains.
COVERAGE = 0.9


@dataclass(frozen=True)
class FittedLaw:
    """A law, the runs it was fitted to, and laws that would fit as well."""

    law: ScalingLaw
    """The fit to all runs."""

    without: npt.NDArray
    """The loss of every run as a fit to the others predicts it, in nats."""

    errors: npt.NDArray
    """The logarithm of the loss of every run, minus that of this prediction."""

    others: tuple[ScalingLaw, ...]
    """Fits to the losses of the law with errors drawn from these."""

    def interval(self, parameters: float, tokens: float, seed: int = 0) -> tuple[float, float]:
        """The interval that contains the loss of a new run with a probability of about nine tenths.

        It has the differences between the laws and an error of a single run.

        Args:
            parameters: of the model.
            tokens: of its training.
            seed: of the drawn errors.
        """
        logs = np.log([float(law.loss(parameters, tokens)) for law in self.others])
        logs += np.random.default_rng([seed, 1]).choice(self.errors, len(logs))
        low, high = np.exp(np.quantile(logs, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))
        return float(low), float(high)

    def interval_of(self, name: str) -> tuple[float, float]:
        """The same for a number of the law, such as "token_exponent"."""
        values = [getattr(law, name) for law in self.others]
        low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
        return float(low), float(high)


def fit_with_uncertainty(
    parameters: npt.ArrayLike, tokens: npt.ArrayLike, losses: npt.ArrayLike, fits: int = FITS, seed: int = 0
) -> FittedLaw:
    """Fit a law, leave each run out once, and fit again to losses with drawn errors.

    The errors are those of runs that a fit did not see, which are larger than residuals: with a few more runs than numbers, a fit
    comes close to every run that it sees.

    Args:
        parameters, tokens, losses: of every run.
        fits: number of fits for intervals.
        seed: of the drawn errors.

    Reference: Efron and Tibshirani, 1993, "An Introduction to the Bootstrap", section 9.5, for drawn errors.
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
