"""An array from a part of a file, in memory that a backend may take as it is."""

import math

import numpy as np

from keras_bert_rebuild.files.regular import check_regular

# JAX and torch take an array whose memory begins at such a multiple, and copy any other.
ALIGNMENT = 64


def aligned_array(shape, dtype):
    """An array in memory of its own that the system hands out, as zeros, only where it is written.

    Args:
        shape: of the array.
        dtype: of its numbers.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # Zeros come fresh from the system; what np.empty gives may have been written before.
    memory = np.zeros(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


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
