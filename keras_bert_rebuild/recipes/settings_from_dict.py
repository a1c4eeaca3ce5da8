"""Settings, a frozen dataclass, from the plain values of a YAML file, and back."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import fields

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
