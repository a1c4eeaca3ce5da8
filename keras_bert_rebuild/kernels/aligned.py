"""Arrays that a backend may take as they are."""

import math

import numpy as np

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
