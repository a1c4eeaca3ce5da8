"""Rotary positions: queries and keys rotated by an angle that grows with the position of their token."""

import numpy as np
from keras import ops


def angles(positions, width, theta, factor=1.0):
    """The cosines and sines of the rotation of heads, float32 `(..., length, 1, width)`.

    Args:
        positions: of the tokens, `(length,)` or `(batch, length)`.
        width: of a head, even.
        theta: pair i rotates by theta^(-2i / width) per position.
        factor: what positions are divided by.
    """
    frequencies = np.float32(theta) ** -(np.arange(0, width, 2, dtype="float32") / width) / np.float32(factor)
    phases = ops.expand_dims(ops.cast(positions, "float32"), -1) * ops.convert_to_tensor(frequencies)
    phases = ops.expand_dims(ops.concatenate([phases, phases], -1), -2)
    return ops.cos(phases), ops.sin(phases)


def rotate(x, cosines, sines):
    """Heads `(batch, length, heads, width)`, rotated in float32: number i and number i + width / 2 are a pair.

    Reference: Su et al., 2021, section 3.2.2 (https://arxiv.org/abs/2104.09864), with the halves of a head as pairs.
    """
    values = ops.cast(x, "float32")
    first, second = ops.split(values, 2, axis=-1)
    rotated = values * cosines + ops.concatenate([-second, first], -1) * sines
    return ops.cast(rotated, x.dtype)
