"""BERT's learning rate, which rises and falls linearly, and the number of steps of a training."""

import numbers
from typing import Any

import keras
import numpy as np
from keras import ops


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
        return {
            "peak_rate": self.peak_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "end_rate": self.end_rate,
        }


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
