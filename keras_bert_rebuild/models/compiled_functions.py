"""The compiled steps of a model, which are traced for every execution and restored afterwards."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from keras_bert_rebuild.layers.seam import PLAIN, Execution, execution

# Keras's attributes that hold compiled functions.
FUNCTIONS = ("train_function", "test_function", "predict_function")

# The attribute of a model with its `_Kept`. A table by models would keep them alive, since compiled functions refer to their model.
_ATTRIBUTE = "_functions_by_execution"


class _Kept:
    """The execution under which the current functions of a model were compiled, and functions compiled under others."""

    def __init__(self) -> None:
        self.now = PLAIN
        self.others: dict[Execution, list[Any]] = {}


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
    kept.others[kept.now] = [getattr(model, name, None) for name in FUNCTIONS]
    for name, function in zip(FUNCTIONS, kept.others.get(now, [None] * len(FUNCTIONS)), strict=True):
        setattr(model, name, function)
    kept.others = {key: functions for key, functions in kept.others.items() if now.follows(key)}
    kept.now = now


def forget_functions(model: keras.Model) -> None:
    """Drop the functions of a model for other executions, because it has been recompiled."""
    if hasattr(model, _ATTRIBUTE):
        getattr(model, _ATTRIBUTE).others.clear()


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
