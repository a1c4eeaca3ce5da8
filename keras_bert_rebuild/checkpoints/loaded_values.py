"""Values of variables that are loaded, without a second copy of the model in memory.

A backend writes zeros into a new variable and copies an array that is assigned to it, so that loading BERT-base would take one
and a half times its size. If a backend can avoid that, `kernels/table.py` has a kernel for it.

An array from a part of a file, in memory that a backend can use without a copy.
"""

import math

import numpy as np
from keras import ops

from keras_bert_rebuild.files.regular import check_regular
from keras_bert_rebuild.kernels.table import choose
from keras_bert_rebuild.kernels.traits import aligned_array


def unwritten(shape, dtype):
    """A tensor of arbitrary values for a variable that is about to be filled; it takes no memory until then.

    Args:
        shape: of the tensor.
        dtype: of its numbers, in Keras's spelling.
    """
    kernel = choose("unwritten")
    return ops.empty(shape, dtype) if kernel is None else kernel(shape, dtype)


def handed_over(array):
    """What to assign to a variable for an array that no one else will write: the array itself if the backend copies it anyway."""
    kernel = choose("handed_over")
    return array if kernel is None else kernel(array)


def read_array(path, dtype, shape, offset):
    """Read an array into new memory.

    It is not a view of the file: a backend may retain the array, and the file may change.

    Args:
        path: the file.
        dtype: of the numbers, in NumPy's spelling.
        shape: of the array.
        offset: bytes before it.

    Raises:
        ValueError: the file ends before the array does.
    """
    # Before memory is allocated: the shape is not trusted.
    end = offset + math.prod(shape) * np.dtype(dtype).itemsize
    if end > check_regular(path):
        raise ValueError(f"{path} is damaged: it ends before byte {end}.")
    array = aligned_array(shape, dtype)
    with path.open("rb") as file:
        file.seek(offset)
        if file.readinto(array.reshape(-1).view("uint8")) != array.nbytes:
            raise ValueError(f"{path} is damaged: it ends before byte {offset + array.nbytes}.")
    return array
