"""Initial weights that depend on a seed and the path of their variable alone, the same on every backend."""

import zlib

import numpy as np


def drawn_by_name(variable, seed, draw):
    """Initial values of a variable.

    Args:
        variable: a built Keras variable.
        seed: a whole number of at least 0.
        draw: a function of a NumPy generator and a shape that gives an array.

    Returns:
        A float32 array of the shape of the variable.
    """
    generator = np.random.default_rng([seed, zlib.crc32(variable.path.encode())])
    return draw(generator, tuple(variable.shape)).astype("float32")
