"""Settings: frozen dataclasses from and to the plain values of a YAML file, and the phases of a pretraining run."""

import difflib
import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np


def settings_from_dict(cls, values, what):
    """Settings from plain values.

    Args:
        cls: a dataclass, which checks its values.
        values: a dictionary by the names of its fields.
        what: what they are the settings of, for the error, such as "a pretraining run".

    Raises:
        ValueError: a name is unknown; the error lists the nearest known ones.
    """
    names = [field.name for field in fields(cls)]
    unknown = [name for name in values if name not in names]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), names, n=2)
        hint = f"; did you mean {' or '.join(near)}" if near else ""
        raise ValueError(f"expected settings of {what}; got {', '.join(map(str, unknown))}{hint}.")
    # YAML 1.1 reads 1e-4, without a point, as a word.
    numbers_of = {field.name for field in fields(cls) if field.type in (float, float | None)}
    return cls(**{name: _as_number(value) if name in numbers_of else value for name, value in values.items()})


def plain(value):
    """A value as YAML would read it back, with everything in it: tuples as lists, paths as strings, no NumPy numbers."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def _as_number(value):
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


# The minimum of every whole number.
MINIMUMS = {"steps": 1, "batch_size": 1, "seq_len": 5, "max_predictions": 1}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of a run with examples of one length."""

    steps: int
    """Optimizer steps."""

    batch_size: int
    """Examples per optimizer step, of all micro-batches together."""

    seq_len: int
    """Tokens of an example, special ones included."""

    max_predictions: int | None = None
    """Maximum number of positions to predict in an example; None: as many as the mask rate of the run needs."""

    def __post_init__(self):
        check_whole_numbers(self, MINIMUMS, optional=("max_predictions",))

    def with_predictions(self, mask_rate):
        """The phase with a number of positions to predict: the given one, or one that the mask rate never reaches.

        In an example, the rate of its tokens without special ones is masked, rounded; or its shortest word or span of words, which
        may be longer if only a few tokens are to be masked: hence one more.
        """
        if self.max_predictions is not None:
            return self
        return replace(self, max_predictions=min(math.ceil(mask_rate * self.seq_len) + 1, self.seq_len))


def as_phase(phase, index):
    """A `Phase`, from one or from its fields.

    Raises:
        ValueError: fields are missing or unknown, or a number is out of range.
    """
    if isinstance(phase, Phase):
        return phase
    names = {f.name for f in fields(Phase)}
    if not isinstance(phase, dict) or set(phase) - names or not {"steps", "batch_size", "seq_len"} <= set(phase):
        expected = "steps, batch_size and seq_len, and may have max_predictions"
        raise ValueError(f"a phase must have {expected}; phase {index} is {phase!r}.")
    return Phase(**phase)


def check_whole_numbers(settings, minimums, optional=()):
    """Refuse fields that are not whole numbers or below their minimum; optional ones may be None."""
    for name, low in minimums.items():
        value = getattr(settings, name)
        if value is None and name in optional:
            continue
        if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name} must be a whole number of at least {low}; got {value!r}.")
