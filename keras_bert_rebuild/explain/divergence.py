"""How different the attention of two models is, head by head."""

import numpy as np
import numpy.typing as npt


def attention_divergence(first: npt.ArrayLike, second: npt.ArrayLike) -> np.ndarray:
    """The mean Jensen-Shannon divergence of the rows of two stacks of attention maps, in bits.

        JSD(P, Q) = ½ KL(P ‖ M) + ½ KL(Q ‖ M),   M = ½ (P + Q)

    It is 0 if every query attends identically in both and 1 if they share no keys. Rows of zeros (queries without visible keys) are
    not counted.

    Args:
        first, second: probabilities `(..., query, key)` of the same shape.

    Returns:
        One value per map, `(...)`, in [0, 1]; 0 for maps without rows.

    Raises:
        ValueError: the shapes differ.

    Reference: Lin, 1991, "Divergence Measures Based on the Shannon Entropy", section IV; for attention heads: Clark et al., 2019,
    section 6 (https://arxiv.org/abs/1906.04341).
    """
    one, other = np.asarray(first, "float64"), np.asarray(second, "float64")
    if one.shape != other.shape or one.ndim < 2:
        raise ValueError(f"both maps must be (..., query, key) of the same shape; got {one.shape} and {other.shape}.")
    middle = (one + other) / 2
    rows = (_entropy(middle) - (_entropy(one) + _entropy(other)) / 2).clip(0, 1)
    counted = (one.sum(-1) > 0) & (other.sum(-1) > 0)
    return (rows * counted).sum(-1) / np.maximum(counted.sum(-1), 1)


def _entropy(shares):
    """−Σ p log2 p of every row."""
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(-1)
