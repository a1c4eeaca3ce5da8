"""An array from a stretch of a file."""

import math

import numpy as np

# Backends take an array whose memory begins at such a multiple as it is, and copy any other.
ALIGNMENT = 64


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
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    array = memory[start : start + size]
    with path.open("rb") as file:
        file.seek(offset)
        if file.readinto(array) != size:
            raise ValueError(f"{path} is damaged: it ends before byte {offset + size}.")
    return array.view(dtype).reshape(shape)
