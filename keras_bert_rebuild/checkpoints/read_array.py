"""An array from a part of a file, in memory that a backend can use without a copy."""

import math

import numpy as np

from keras_bert_rebuild.files.regular import check_regular
from keras_bert_rebuild.kernels.aligned import aligned_array


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
