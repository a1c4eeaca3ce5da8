"""Layers and operations without the kernels of the running backend, and which kernels run."""

import contextlib
import dataclasses
import functools

from keras_bert_rebuild.kernels.kernel import KERNELS
from keras_bert_rebuild.layers.seam import kernel_of


@contextlib.contextmanager
def _restored():
    """The kernels of every seam that has some, as they were before the block."""
    seams = [replaced for of_kernel in KERNELS.values() for replaced in of_kernel]
    before = [list(replaced.kernels) for replaced in seams]
    try:
        yield seams
    finally:
        for replaced, kernels in zip(seams, before, strict=True):
            replaced.kernels[:] = kernels


def plain(function, *arguments, **options):
    """The answer of a function without any kernel."""
    with _restored() as seams:
        for replaced in seams:
            replaced.kernels.clear()
        return function(*arguments, **options)


@contextlib.contextmanager
def noted_kernels():
    """The names of the kernels that run in the block, `module.function`, a set that grows."""
    names = set()

    def noted(function, *arguments, **options):
        names.add(name_of(function))
        return function(*arguments, **options)

    with _restored() as seams:
        for replaced in {id(replaced): replaced for replaced in seams}.values():
            replaced.kernels[:] = [
                dataclasses.replace(kernel, function=functools.partial(noted, kernel.function)) for kernel in replaced.kernels
            ]
        yield names


def name_of(function):
    """The name of a kernel in `KERNELS`."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def chosen(replaced, *arguments, **options):
    """The name of the kernel that would compute a seam; None for the plain form."""
    kernel = kernel_of(replaced, *arguments, **options)
    return None if kernel is None else name_of(kernel.function)
