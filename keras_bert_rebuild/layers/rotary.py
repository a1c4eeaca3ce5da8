"""Rotary positions: queries and keys turned by an angle that grows with the offset of their token."""

import numpy as np
from keras import ops


def angles(positions, width, theta):
    """The cosines and sines by which heads are turned, float32 `(..., length, 1, width)`.

    Args:
        positions: offsets of tokens, `(length,)` or `(batch, length)`.
        width: of a head, even.
        theta: pair i turns by theta^(-2i / width) a token.
    """
    speeds = np.float32(theta) ** -(np.arange(0, width, 2, dtype="float32") / width)
    turned = ops.expand_dims(ops.cast(positions, "float32"), -1) * ops.convert_to_tensor(speeds)
    turned = ops.expand_dims(ops.concatenate([turned, turned], -1), -2)
    return ops.cos(turned), ops.sin(turned)


def turn(x, cosines, sines):
    """Heads `(batch, length, heads, width)` turned, in float32: number i and number i + width / 2 are a pair.

    Reference: Su et al., 2021, section 3.2.2 (https://arxiv.org/abs/2104.09864), with the halves of a head as pairs.
    """
    values = ops.cast(x, "float32")
    first, second = ops.split(values, 2, axis=-1)
    turned = values * cosines + ops.concatenate([-second, first], -1) * sines
    return ops.cast(turned, x.dtype)
