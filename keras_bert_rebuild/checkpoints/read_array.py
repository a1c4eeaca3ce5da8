"""An array from a part of a file, in memory that a backend may take as it is."""

import math

import numpy as np

from keras_bert_rebuild.files.regular import check_regular
from keras_bert_rebuild.kernels.aligned import aligned_array


def read_array(path, dtype, shape, offset):
    """Read an array into memory of its own.

    Not a view of the file: a backend may keep what it is given, and the file may change.

    Args:
        path: the file.
        dtype: of the numbers, as NumPy spells it.
        shape: of the array.
        offset: bytes before it.

    Raises:
        ValueError: the file ends before the array does.
    """
    # Before there is memory for it: a shape may say anything.
    end = offset + math.prod(shape) * np.dtype(dtype).itemsize
    if end > check_regular(path):
        raise ValueError(f"{path} is damaged: it ends before byte {end}.")
    array = aligned_array(shape, dtype)
    with path.open("rb") as file:
        file.seek(offset)
        if file.readinto(array.reshape(-1).view("uint8")) != array.nbytes:
            raise ValueError(f"{path} is damaged: it ends before byte {offset + array.nbytes}.")
    return array
