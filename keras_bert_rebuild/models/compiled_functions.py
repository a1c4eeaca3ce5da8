"""The compiled steps of a model, which are traced again where something intervenes in a model, and as before afterwards."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from keras_bert_rebuild.kernels.interventions import running_interventions

# Keras's attributes for what it compiled.
FUNCTIONS = ("train_function", "test_function", "predict_function")

# The attribute of a model with its `_Kept`. In a table by models it would keep them alive: compiled functions refer to their model.
_ATTRIBUTE = "_functions_by_interventions"


class _Kept:
    """The interventions under which the functions of a model were compiled, and those that were compiled under others."""

    def __init__(self) -> None:
        self.now: frozenset[object] = frozenset()
        self.others: dict[frozenset[object], list[Any]] = {}


def follow_interventions(model: keras.Model) -> None:
    """Give a model the compiled functions for the interventions that are running: those it had under them, or none yet.

    Functions of interventions that have ended are forgotten.

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
    """Forget what a model has from before the running interventions; it is compiled again, and has no functions."""
    if hasattr(model, _ATTRIBUTE):
        getattr(model, _ATTRIBUTE).others.clear()


@contextlib.contextmanager
def traced_again(model: keras.Model, step: str) -> Iterator[None]:
    """Let a step be compiled again under interventions. JAX takes the same method of the same model for the function that it knows.

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
