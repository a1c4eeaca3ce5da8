"""The training, test or prediction step that runs, what the losses in it report, and the functions compiled for it."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import keras

from keras_bert_rebuild.layers.seam import PLAIN, Execution, executing, execution

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


# Keras's attributes that hold compiled functions.
FUNCTIONS = ("train_function", "test_function", "predict_function")

# The attribute of a model with its `_Kept`. A table by models would keep them alive, since compiled functions refer to their model.
_ATTRIBUTE = "_functions_by_execution"


class _Kept:
    """The execution under which the current functions of a model were compiled, and functions compiled under others."""

    def __init__(self) -> None:
        self.now = PLAIN
        self.functions: dict[Execution, list[Any]] = {}


def follow_execution(model: keras.Model) -> None:
    """Give a model the functions compiled under the current execution, if there are any yet.

    A compiled function has the model's Python code as it was when traced, so it is valid for one execution only. Functions for
    executions that have ended are dropped.

    Args:
        model: any Keras model.
    """
    now = execution()
    kept = getattr(model, _ATTRIBUTE, None)
    if now == (PLAIN if kept is None else kept.now):
        return
    if kept is None:
        kept = _Kept()
        setattr(model, _ATTRIBUTE, kept)
    kept.functions[kept.now] = [getattr(model, name, None) for name in FUNCTIONS]
    for name, function in zip(FUNCTIONS, kept.functions.get(now, [None] * len(FUNCTIONS)), strict=True):
        setattr(model, name, function)
    kept.functions = {key: functions for key, functions in kept.functions.items() if now.follows(key)}
    kept.now = now


def forget_functions(model: keras.Model) -> None:
    """Drop the functions of a model for other executions, because it has been recompiled."""
    if hasattr(model, _ATTRIBUTE):
        getattr(model, _ATTRIBUTE).functions.clear()


@contextlib.contextmanager
def traced_again(model: keras.Model, step: str) -> Iterator[None]:
    """Let a step be retraced under rules; JAX would reuse the function that it has traced for the same method and model.

    Args:
        model: any Keras model.
        step: the name of the method.
    """
    if not execution().rules:
        yield
        return
    method = getattr(model, step)
    setattr(model, step, lambda *args: method(*args))
    try:
        yield
    finally:
        delattr(model, step)
