"""What is said of a kernel: what it computes, where it runs, why, and where its gain was measured."""

import dataclasses
from collections.abc import Callable

from keras_bert_rebuild.kernels.conditions import always


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function of one backend that replaces the plain form of an operation, which is written in `keras.ops`."""

    operation: str
    """What it computes: the name of the function that layers, optimizers and loaders call (see `operations.py`)."""
    backend: str
    """Its name in Keras."""
    function: str
    """`module.name` in this folder. The module is imported when the kernel first runs."""
    reason: str
    """Why the plain form is not enough."""
    figure: str
    """Where the gain was measured: a heading of benchmarks/RESULTS.md, a page, or a test that shows it."""
    condition: str = "always"
    """The condition in words."""
    applies: Callable[..., bool] = always
    """Whether the kernel supports the arguments. The first kernel in the table that does is used."""
