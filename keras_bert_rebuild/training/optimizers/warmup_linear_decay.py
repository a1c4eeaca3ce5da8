"""BERT's learning rate, which rises and falls linearly, and the number of steps of a training."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that rises linearly from 0 to its peak and falls linearly to `end_rate`, without a jump.

        rate(t) = peak_rate · t / warmup_steps                                                           for t < warmup_steps
        rate(t) = end_rate + (peak_rate − end_rate) · (total_steps − t) / (total_steps − warmup_steps)   after
        rate(t) = end_rate                                                                               for t ≥ total_steps

    t counts the previous optimizer steps, so with a warm-up the first step has rate 0, as in google-research/bert and in
    transformers. `AdamW` and `Lamb` of this package pass optimizer steps also with gradient accumulation; Keras's optimizers pass
    batches, so there the lengths must be multiplied by `gradient_accumulation_steps`.

    google-research/bert counts the fall from step 0 and jumps down at the end of the warm-up by `peak_rate · warmup_steps /
    total_steps`; `AdamWarmup` does the same. Here, as in transformers' linear schedule, the fall begins at the peak.

    Args:
        peak_rate: rate at the end of the warm-up.
        warmup_steps: optimizer steps, not epochs, of rising rate; 0 to start at the peak.
        total_steps: optimizer steps after which the rate stays at `end_rate`.
        end_rate: rate at the end.

    Raises:
        ValueError: a negative rate, or a `warmup_steps` that is negative or above `total_steps`, which is at least 1.

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
        step = ops.cast(step, "float32")
        left = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        falling = self.end_rate + (self.peak_rate - self.end_rate) * ops.clip(left, 0.0, 1.0)
        return ops.where(step < self.warmup_steps, self.peak_rate * step / max(self.warmup_steps, 1), falling)

    def get_config(self) -> dict[str, Any]:
        return {
            "peak_rate": self.peak_rate,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "end_rate": self.end_rate,
        }


def calc_train_steps(num_example: int, batch_size: int, epochs: int, warmup_proportion: float = 0.1) -> tuple[int, int]:
    """The total number of steps and the number of warm-up steps.

    Args:
        num_example: examples in an epoch; a last batch that is not full counts as a step.
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
