"""How fast this machine multiplies matrices: the ceiling for the speed of a training."""

import time

from keras import ops


def matrix_ceiling(dtype="float32", seconds=0.5):
    """Floating-point operations per second of a large matrix product, the best of several.

    Args:
        dtype: dtype of the matrices.
        seconds: about how long to measure.
    """
    size = 1024
    while True:  # a product that takes long compared with the overhead of the call
        matrix = ops.full((size, size), 1 / size, dtype=dtype)
        _product(matrix)
        taken = _product(matrix)
        if taken > seconds / 20 or size >= 16384:
            break
        size *= 2
    times = [taken]
    while sum(times) < seconds:
        times.append(_product(matrix))
    return 2 * size**3 / min(times)


def _product(matrix):
    started = time.perf_counter()
    float(ops.convert_to_numpy(ops.cast(ops.matmul(matrix, matrix)[0, 0], "float32")))  # waits for the device
    return time.perf_counter() - started
