"""The training, test or prediction step that runs, and what the losses in it report."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import keras

from keras_bert_rebuild.layers.seam import executing, execution

# Kinds of steps.
TRAIN, TEST, PREDICT = "train", "test", "predict"


@dataclass(frozen=True)
class RunningStep:
    """The step that a thread is running."""

    model: keras.Model
    kind: str
    """`TRAIN`, `TEST` or `PREDICT`."""

    labels: Any = None
    """The labels of the MLM head if it is computed in chunks, else None. Keras calls a model with its inputs only; without labels
    there, every chunk would have to be computed twice after the call, for the loss and for the metrics."""

    means: list[Any] = field(default_factory=list)
    """What its losses have reported, from `note_mean`."""


def running(model: keras.Model, kind: str, labels: Any = None) -> AbstractContextManager[None]:
    """A context that marks that a step of a model runs.

    Replicas of MirroredStrategy are threads: an attribute of the model would leak from one to another.
    """
    return executing(step=RunningStep(model, kind, labels))


def running_step(model: keras.Model) -> RunningStep | None:
    """The step of this model that runs here."""
    step = execution().step
    return step if step is not None and step.model is model else None


def note_mean(loss: keras.losses.Loss, mean: Any, count: Any) -> None:
    """Report the mean of a loss and its number of labels to the step that computes it; does nothing outside of a step.

    Args:
        loss: the loss.
        mean: the mean over the labels of the batch, a scalar.
        count: the divisor of the sum over the labels: their number, or the sum of their weights.
    """
    step = execution().step
    if step is not None:
        step.means.append((loss, mean, count))
