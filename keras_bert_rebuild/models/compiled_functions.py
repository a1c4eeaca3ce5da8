"""The compiled steps of a model, which are retraced under interventions and restored afterwards."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from keras_bert_rebuild.kernels.interventions import running_interventions

# Keras's attributes that hold compiled functions.
FUNCTIONS = ("train_function", "test_function", "predict_function")

# The attribute of a model with its `_Kept`. A table by models would keep them alive, since compiled functions refer to their model.
_ATTRIBUTE = "_functions_by_interventions"


class _Kept:
    """The interventions under which the current functions of a model were compiled, and functions compiled under others."""

    def __init__(self) -> None:
        self.now: frozenset[object] = frozenset()
        self.others: dict[frozenset[object], list[Any]] = {}


def follow_interventions(model: keras.Model) -> None:
    """Give a model the functions compiled under the active interventions, if there are any yet.

    Functions for interventions that have ended are dropped.

    Args:
        model: any Keras model.
    """
    now = running_interventions()
    kept = getattr(model, _ATTRIBUTE, None)
    if now == (frozenset() if kept is None else kept.now):
        return
    if kept is None:
        kept = _Kept()
        setattr(model, _ATTRIBUTE, kept)
    kept.others[kept.now] = [getattr(model, name, None) for name in FUNCTIONS]
    for name, function in zip(FUNCTIONS, kept.others.get(now, [None] * len(FUNCTIONS)), strict=True):
        setattr(model, name, function)
    kept.others = {key: functions for key, functions in kept.others.items() if key < now}
    kept.now = now


def forget_functions(model: keras.Model) -> None:
    """Drop the functions of a model from before the active interventions, because it has been recompiled."""
    if hasattr(model, _ATTRIBUTE):
        getattr(model, _ATTRIBUTE).others.clear()


@contextlib.contextmanager
def traced_again(model: keras.Model, step: str) -> Iterator[None]:
    """Let a step be retraced under interventions; JAX would reuse the function that it has traced for the same method and model.

    Args:
        model: any Keras model.
        step: the name of the method.
    """
    if not running_interventions():
        yield
        return
    method = getattr(model, step)
    setattr(model, step, lambda *args: method(*args))
    try:
        yield
    finally:
        delattr(model, step)
