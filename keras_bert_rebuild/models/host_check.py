"""Checks of a batch on the host, before a device sees it: no backend reports an id outside its table."""

from dataclasses import dataclass

import numpy as np

# What the labels of a head mean.
CLASSES = {"NSP": "0 the next sentence, 1 a random one", "SOP": "0 in their order, 1 swapped"}


@dataclass(frozen=True)
class IdRule:
    """The allowed whole numbers of one array."""

    name: str
    """Name of the input or label, for the error."""

    limit: int | None = None
    """Numbers must be in [0, limit); None means any."""

    table: str = ""
    """What `limit` counts, for the error."""

    max_length: int | None = None
    """The longest second axis; None means any."""


def check_ids(rule, values):
    """Check one array of ids.

    Args:
        rule: an `IdRule`.
        values: an array or nested lists, `(batch, ...)`; floats must be whole numbers.

    Returns:
        The values as an array of integers.

    Raises:
        ValueError: says what was expected, what came and where.
    """
    array = _as_array(rule, values)
    if array.dtype.kind not in "iub":
        array = _as_whole_numbers(rule, array)
    if rule.max_length is not None and array.ndim > 1 and array.shape[1] > rule.max_length:
        raise ValueError(
            f"{rule.name}: a sequence may have at most {rule.max_length} positions, the rows of the position table; "
            f"got shape {array.shape}."
        )
    # Two reductions and no mask array: this runs on every batch.
    if rule.limit is not None and array.size and (array.min() < 0 or array.max() >= rule.limit):
        where = np.argwhere((array < 0) | (array >= rule.limit))[0]
        raise ValueError(
            f"{rule.name}: expected ids from 0 to {rule.limit - 1} ({rule.table}); got {array[tuple(where)]} at {_shown(where)}."
        )
    return array


def check_predictions(masked, real, max_predictions):
    """Check that no example has more positions to predict than there are slots.

    Args:
        masked: `(batch, length)`, nonzero where a token is to be predicted.
        real: `(batch, length)`, nonzero where there is a real token.
        max_predictions: slots per example.
    """
    counts = np.sum((masked != 0) & (real != 0), axis=1)
    if counts.size and counts.max() > max_predictions:
        row = int(counts.argmax())
        raise ValueError(
            f"Input-Masked: expected at most max_predictions={max_predictions} positions to predict per example; "
            f"got {counts[row]} at [{row}]."
        )


def _as_array(rule, values):
    if isinstance(values, str):
        raise ValueError(f"{rule.name}: expected an array of ids; got the string {values[:40]!r}.")
    if isinstance(values, (list, tuple)):
        lengths = {np.shape(row)[:1] if isinstance(row, np.ndarray) else _length(row) for row in values}
        if len(lengths) > 1:
            shown = ", ".join(str(n[0]) if n else "a single id" for n in sorted(lengths))
            raise ValueError(f"{rule.name}: expected rows of equal length; got a ragged array with rows of {shown}: pad them.")
    array = np.asarray(values)
    if array.dtype.kind not in "iubf" and array.dtype.name != "bfloat16":
        raise ValueError(f"{rule.name}: expected whole numbers; got an array of {array.dtype}.")
    return array


def _length(row):
    return (len(row),) if hasattr(row, "__len__") and not isinstance(row, (str, bytes)) else ()


def _as_whole_numbers(rule, array):
    wrong = ~np.isfinite(array) | (array != np.trunc(array))
    if wrong.any():
        where = np.argwhere(wrong)[0]
        raise ValueError(f"{rule.name}: expected whole numbers; got {array[tuple(where)]} at {_shown(where)}.")
    return array.astype("int64")


def _shown(index):
    return "[" + ", ".join(str(i) for i in index) + "]"
