"""Which values are finite numbers."""

import math
import numbers

import numpy as np


def is_number(value):
    """Whether a value is a finite real number, and no truth value."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def all_finite(array):
    """Whether an array holds finite numbers only: no NaN and no infinity."""
    with np.errstate(invalid="ignore"):
        return math.isfinite(array.sum(dtype="float64"))  # one number, and not an array of answers
