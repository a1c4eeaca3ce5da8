"""The kernel that runs for an operation: the only place where kernels are chosen."""

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import keras

from keras_bert_rebuild.kernels.table import TABLE

# Environment variable that lists kernels to leave out, read when the first kernel of an operation is chosen.
WITHOUT = "KERAS_BERT_WITHOUT_KERNELS"


def choose(operation: str, *arguments: Any) -> Callable[..., Any] | None:
    """The kernel of the running backend for an operation, or None if its plain form must run.

    Args:
        operation: a name of the table.
        *arguments: the arguments of its kernels' conditions.
    """
    for kernel in _of_backend(keras.config.backend(), operation):
        if kernel.applies(*arguments):
            module, _, name = kernel.function.rpartition(".")
            return getattr(_module(module), name)
    return None


@functools.cache
def _of_backend(backend, operation):
    without = switched_off(os.environ.get(WITHOUT, ""))
    found = (kernel for kernel in TABLE if (kernel.backend, kernel.operation) == (backend, operation))
    return tuple(kernel for kernel in found if kernel.function not in without)


def switched_off(names: str) -> frozenset[str]:
    """The kernels that `KERAS_BERT_WITHOUT_KERNELS` lists.

    Args:
        names: functions of the table, separated by commas.

    Raises:
        ValueError: a name that is not in the table.
    """
    found = frozenset(name.strip() for name in names.split(",") if name.strip())
    known = {kernel.function for kernel in TABLE}
    if unknown := found - known:
        names, wrong = (", ".join(sorted(some)) for some in (known, unknown))
        raise ValueError(f"{WITHOUT} must have names of kernels, separated by commas, out of {names}; got {wrong}.")
    return found


@functools.cache  # also so that AutoGraph, which follows calls, does not follow the import
def _module(name):
    return importlib.import_module(f"keras_bert_rebuild.kernels.{name}")
