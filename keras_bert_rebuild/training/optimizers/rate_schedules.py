"""Learning rates: BERT's, which rises and falls linearly, and warmup-stable-decay; the number of steps of a training.

The latter is a function of steps, or of the progress of a run whose number of steps is unknown.
"""

import math
import numbers
from typing import Any

import keras
import numpy as np
from keras import ops

# Shapes of the decay: the fraction of the peak, given the remaining fraction of the decay, from 1 at its start to 0 at its end, and
# the module that computes with it.
SHAPES = {
    "linear": lambda left, xp: left,
    "cosine": lambda left, xp: (1.0 + xp.cos((1.0 - left) * math.pi)) / 2.0,
    "one_minus_sqrt": lambda left, xp: 1.0 - xp.sqrt(1.0 - left),
}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly from 0 to its peak and decays linearly to `end_rate`, without a jump.

        rate(t) = peak_rate · t / warmup_steps                                                           for t < warmup_steps
        rate(t) = end_rate + (peak_rate − end_rate) · (total_steps − t) / (total_steps − warmup_steps)   after
        rate(t) = end_rate                                                                               for t ≥ total_steps

    t is the number of completed optimizer steps, so with a warm-up the first step has a learning rate of 0, as in
    google-research/bert and in transformers. `AdamW` and `Lamb` of this package pass optimizer steps even with gradient
    accumulation; Keras's optimizers pass batches, so there all lengths must be multiplied by `gradient_accumulation_steps`.

    google-research/bert counts the decay from step 0, so that the learning rate drops by `peak_rate · warmup_steps / total_steps`
    at the end of the warm-up; `AdamWarmup` does the same. Here, as in transformers' linear schedule, the decay starts at the peak.

    Args:
        peak_rate: learning rate at the end of the warm-up.
        warmup_steps: warm-up in optimizer steps, not epochs; 0 to start at the peak.
        total_steps: optimizer steps after which the learning rate is `end_rate`.
        end_rate: final learning rate.

    Raises:
        ValueError: a learning rate is negative, `warmup_steps` is negative or above `total_steps`, or that is below 1.

    Example:

    >>> schedule = WarmupLinearDecay(1.0, warmup_steps=2, total_steps=6)
    >>> [float(schedule(step)) for step in range(8)]
    [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]

    Reference: Devlin et al., 2019, appendix A.2 (https://arxiv.org/abs/1810.04805); `optimization.py` of google-research/bert.
    """

    def __init__(self, peak_rate: float, warmup_steps: int, total_steps: int, end_rate: float = 0.0) -> None:
        if not 0 <= warmup_steps <= total_steps or total_steps < 1:
            raise ValueError(
                "warmup_steps must be from 0 to total_steps, and total_steps at least 1; "
                f"got warmup_steps={warmup_steps} and total_steps={total_steps}."
            )
        if peak_rate < 0 or end_rate < 0:
            raise ValueError(f"learning rates must not be negative; got peak_rate={peak_rate} and end_rate={end_rate}.")
        self.peak_rate = peak_rate
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.end_rate = end_rate

    def __call__(self, step: Any) -> Any:
        step, xp = float32_and_module(step)
        left = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        falling = self.end_rate + (self.peak_rate - self.end_rate) * xp.clip(left, 0.0, 1.0)
        return xp.where(step < self.warmup_steps, self.peak_rate * step / max(self.warmup_steps, 1), falling)

    def get_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("peak_rate", "warmup_steps", "total_steps", "end_rate")}


def float32_and_module(value: Any) -> tuple[Any, Any]:
    """A number or tensor in float32, and the module that computes with it.

    The module is NumPy for a number: a learning rate in a log is not worth a program of JAX for every operation.
    """
    if isinstance(value, numbers.Real):
        return np.float32(value), np
    return ops.cast(value, "float32"), ops


def calc_train_steps(num_example: int, batch_size: int, epochs: int, warmup_proportion: float = 0.1) -> tuple[int, int]:
    """The total number of steps and the number of warm-up steps.

    Args:
        num_example: examples per epoch; an incomplete last batch counts as a step.
        batch_size: examples per step.
        epochs: number of epochs.
        warmup_proportion: fraction of the steps, in [0, 1], during which the learning rate rises.

    Returns:
        `(total steps, warm-up steps)`.

    Example:

    >>> calc_train_steps(num_example=1024, batch_size=32, epochs=10, warmup_proportion=0.1)
    (320, 32)
    """
    steps = (num_example + batch_size - 1) // batch_size * epochs
    return steps, int(steps * warmup_proportion)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class WarmupStableDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly from 0 to its peak, is constant, and decays to 0: a trapezoid if the decay is linear.

        rate(t) = peak_rate · t / warmup_steps                                    for t < warmup_steps
        rate(t) = peak_rate                                                       for t ≤ total_steps − decay_steps
        rate(t) = peak_rate · shape((total_steps − t) / decay_steps)              after, and 0 for t ≥ total_steps

        shape(u) = u   or   (1 + cos(π (1 − u))) / 2   or   1 − √(1 − u)          "linear", "cosine", "one_minus_sqrt"

    t is the number of completed optimizer steps, as for `WarmupLinearDecay`. The learning rate before the decay does not depend on
    `total_steps`: from any checkpoint before the decay, a run can be continued with a decay that starts there.

    Args:
        peak_rate: learning rate after the warm-up.
        warmup_steps: warm-up steps; 0 to start at the peak.
        decay_steps: steps of the decay; `total_steps - warmup_steps` for no constant part.
        total_steps: optimizer steps after which the learning rate is 0.
        shape: shape of the decay, "linear", "cosine" or "one_minus_sqrt".

    Raises:
        ValueError: the peak is negative, the shape is unknown, or the total is below 1 or below the sum of the other steps.

    Example:

    >>> schedule = WarmupStableDecay(1.0, warmup_steps=2, decay_steps=4, total_steps=8)
    >>> [round(float(schedule(step)), 3) for step in range(10)]
    [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.293, 0.134, 0.0, 0.0]

    Reference: Hägele et al., 2024, sections 2 and 4 (https://arxiv.org/abs/2405.18392), also for 1 − √; Zhai et al., 2022, section
    3.5 (https://arxiv.org/abs/2106.04560), for the trapezoid; Loshchilov and Hutter, 2017, for the cosine.
    """

    def __init__(
        self, peak_rate: float, warmup_steps: int, decay_steps: int, total_steps: int, shape: str = "one_minus_sqrt"
    ) -> None:
        if min(warmup_steps, decay_steps) < 0 or warmup_steps + decay_steps > total_steps or total_steps < 1:
            raise ValueError(
                "warmup_steps and decay_steps must not be negative, and total_steps at least their sum and at least 1; "
                f"got warmup_steps={warmup_steps}, decay_steps={decay_steps} and total_steps={total_steps}."
            )
        _check_rate_and_shape(peak_rate, shape)
        self.peak_rate = peak_rate
        self.warmup_steps = warmup_steps
        self.decay_steps = decay_steps
        self.total_steps = total_steps
        self.shape = shape

    def __call__(self, step: Any) -> Any:
        return _rate(step, self.peak_rate, self.warmup_steps, self.decay_steps, self.total_steps, self.shape)

    def get_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("peak_rate", "warmup_steps", "decay_steps", "total_steps", "shape")}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ProgressSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Warmup-stable-decay for a run with a time limit: the learning rate is a function of its progress, from 0 at its start to 1.

        progress(t) = begun + (1 − begun) · (t − from) / (until − from)

    `begun`, `from` and `until` are a variable, which `correct` sets when the speed of the run shows that it will not end at step
    `until`. A correction changes the slope of the progress, not its value, so the learning rate does not jump. The variable belongs
    to the optimizer and is thus in every checkpoint.

    Args:
        peak_rate: learning rate after the warm-up.
        warmup_fraction, decay_fraction: fractions of the progress for warm-up and decay, together at most 1.
        shape: as for `WarmupStableDecay`.
        expected_steps: number of steps of the run, until it is corrected.

    Raises:
        ValueError: an argument is out of range.

    Example:

    >>> schedule = ProgressSchedule(1.0, warmup_fraction=0.0, decay_fraction=1.0, shape="linear", expected_steps=10)
    >>> schedule.correct(step=5, progress=0.5, last_step=7)
    >>> [float(schedule(step)) for step in range(5, 8)]
    [0.5, 0.25, 0.0]
    """

    def __init__(
        self, peak_rate: float, warmup_fraction: float, decay_fraction: float, shape: str, expected_steps: int = 1000
    ) -> None:
        if min(warmup_fraction, decay_fraction) < 0 or warmup_fraction + decay_fraction > 1 or expected_steps < 1:
            raise ValueError(
                "warmup_fraction and decay_fraction must not be negative, and together at most 1, and expected_steps at least 1; "
                f"got {warmup_fraction}, {decay_fraction} and {expected_steps}."
            )
        _check_rate_and_shape(peak_rate, shape)
        self.peak_rate = peak_rate
        self.warmup_fraction = warmup_fraction
        self.decay_fraction = decay_fraction
        self.shape = shape
        self.expected_steps = expected_steps
        self.line = np.array([0, 0, expected_steps], "float32")
        """`(3,)`: the step and the progress of the last correction, and the step at which the progress will be 1."""

    def add_variables(self, optimizer: Any) -> None:
        """Store the correction in a variable of an optimizer, which calls this when it is built."""
        variable = optimizer.add_variable((3,), initializer="zeros", dtype="float32", name="progress")
        variable.assign(self.line)
        self.line = variable

    def correct(self, step: int, progress: float, last_step: int) -> None:
        """From this step and its progress, let the progress grow linearly to 1 at `last_step`."""
        values = np.array([step, progress, last_step], "float32")
        if hasattr(self.line, "assign"):
            self.line.assign(values)
        else:
            self.line = values

    def progress(self, step: Any) -> Any:
        """The progress after a number of steps, from 0 to 1."""
        step, xp = float32_and_module(step)
        line = ops.convert_to_numpy(self.line) if xp is np else ops.convert_to_tensor(self.line)
        begun, since = line[1], step - line[0]
        return xp.clip(begun + (1.0 - begun) * (since / xp.maximum(line[2] - line[0], 1.0)), 0.0, 1.0)

    def __call__(self, step: Any) -> Any:
        return _rate(self.progress(step), self.peak_rate, self.warmup_fraction, self.decay_fraction, 1.0, self.shape)

    def get_config(self) -> dict[str, Any]:
        names = ("peak_rate", "warmup_fraction", "decay_fraction", "shape", "expected_steps")
        return {name: getattr(self, name) for name in names}


def _rate(at, peak, warmup, decay, total, shape):
    """The learning rate at a point of a run: `at`, `warmup`, `decay` and `total` are steps, or fractions of the run."""
    at, xp = float32_and_module(at)
    left = xp.clip((total - at) / decay, 0.0, 1.0) if decay else xp.where(at < total, 1.0, 0.0)
    return xp.where(at < warmup, peak * at / (warmup or 1), peak * SHAPES[shape](left, xp))


def _check_rate_and_shape(peak_rate, shape):
    if peak_rate < 0:
        raise ValueError(f"peak_rate must not be negative; got {peak_rate}.")
    if shape not in SHAPES:
        raise ValueError(f"shape must be one of {', '.join(map(repr, SHAPES))}; got {shape!r}.")
