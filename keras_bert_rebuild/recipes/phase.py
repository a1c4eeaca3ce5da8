"""A part of a pretraining run with examples of one length."""

import math
import numbers
from dataclasses import dataclass, fields, replace

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
