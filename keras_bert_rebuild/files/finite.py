"""Tests for finite numbers."""

import math
import numbers

import numpy as np


def is_number(value):
    """Whether a value is a finite real number and not a bool."""
    try:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def all_finite(array):
    """Whether an array has only finite numbers: no NaN and no infinity."""
    with np.errstate(invalid="ignore"):
        return math.isfinite(array.sum(dtype="float64"))  # no array of booleans is needed
