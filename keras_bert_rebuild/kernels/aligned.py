"""Arrays that a backend can use without a copy."""

import math

import numpy as np

# JAX and torch use an array whose memory starts at a multiple of this, and copy any other.
ALIGNMENT = 64


def aligned_array(shape, dtype):
    """An array in new memory, which the system allocates, as zeros, only where it is written.

    Args:
        shape: of the array.
        dtype: of its numbers.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # np.zeros takes new memory from the system; np.empty may return memory that was written before.
    memory = np.zeros(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
