"""Muon: the update of a matrix is its momentum with all singular values near 1; all else is updated by AdamW."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.optimizers.by_path import ByPathOptimizer
from keras_bert_rebuild.training.optimizers.path_patterns import NO_DECAY, check_patterns, matches_any

# The kernels of the blocks; not embeddings and their projection, heads, biases and norms.
BLOCK_MATRICES = (r"Encoder-\d+-.*/kernel$",)

# The quintic polynomial a x + b x³ + c x⁵ and its number of iterations: it maps singular values of 0.01 to 1 to 0.7 to 1.2.
_A, _B, _C = 3.4445, -4.7750, 2.0315
ROUNDS = 5

# The root mean square of the update of a matrix at a learning rate of 1, as is typical of AdamW.
RMS = 0.2

# The dtypes that the products may be computed in.
PRODUCTS = ("float32", "bfloat16")


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Muon(ByPathOptimizer):
    """Orthogonalised momentum for the matrices of the blocks; AdamW for embeddings, norms, biases and heads.

        m ← μ m + g
        w ← w − rate · (0.2 √max(rows, columns) · orthogonalised(g + μ m) + weight_decay · w)

    The entries of an orthogonal matrix have the root mean square 1 / √max(rows, columns): the factor scales it to 0.2 for every
    matrix, whatever its size, as is typical of AdamW's updates. The same learning rate and weight decay thus suit both optimizers
    and all widths. A matrix is a variable with two axes and a path that matches `matrices`; it has one array of state where AdamW
    has two.

    Five Newton–Schulz iterations cost 20 n² m + 10 n³ operations for a matrix of n rows and m ≥ n columns, whatever the batch size.
    `keras.optimizers.Muon` has the same update and coefficients; it excludes variables with "embedding" in their names, and decays
    biases and norms too.

    Args:
        learning_rate, weight_decay, beta_1, beta_2, epsilon, no_decay, rate_multipliers, ema_momentum, bias_correction, name,
            **kwargs: as for `AdamW`; the betas, epsilon and bias correction apply to variables that are not matrices.
        matrices: regular expressions over variable paths.
        momentum: μ, in [0, 1).
        nesterov: False uses m instead of g + μ m.
        products: the dtype of the Newton–Schulz products, "float32", or "bfloat16", which is as good, and faster where the hardware
            supports it; state and updates are always float32.

    Raises:
        ValueError: as for `AdamW`; or `momentum` or `products` is invalid.

    Example:

    >>> import numpy as np
    >>> kernel = keras.Variable(np.zeros((2, 2)), name="kernel")
    >>> optimizer = Muon(1.0, matrices=["kernel"])
    >>> optimizer.build([kernel])
    >>> optimizer.apply([np.diag([3.0, 0.1]).astype("float32")])
    >>> np.abs(kernel.numpy()).astype("float64").round(1).tolist()  # 0.2 √2 = 0.28 for both, as close as five iterations get
    [[0.2, 0.0], [0.0, 0.3]]

    Reference: Jordan et al., 2024 (https://kellerjordan.github.io/posts/muon/), for the algorithm and its coefficients; Liu et al.,
    2025, section 2.2 (https://arxiv.org/abs/2502.16982), for the factor and the weight decay.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-4,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        *,
        matrices: Sequence[str] = BLOCK_MATRICES,
        momentum: float = 0.95,
        nesterov: bool = True,
        products: str = "float32",
        no_decay: Sequence[str] = NO_DECAY,
        rate_multipliers: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        check_patterns("matrices", matrices)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be in [0, 1); got {momentum}.")
        if products not in PRODUCTS:
            raise ValueError(f"products must be one of {', '.join(map(repr, PRODUCTS))}; got {products!r}.")
        super().__init__(
            learning_rate, weight_decay, beta_1, beta_2, epsilon, no_decay=no_decay, rate_multipliers=rate_multipliers, **kwargs
        )
        self.matrices = list(matrices)
        self.momentum = momentum
        self.nesterov = nesterov
        self.products = products

    def adapted(self, move, weight, rate):
        return move

    def has_velocity(self, variable: Any) -> bool:
        return not is_matrix(variable.path, variable.shape, self.matrices)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        if self._velocities[index] is not None:
            super().update_step(gradient, variable, learning_rate)
            return
        momentum = self._momentums[index]
        dtype = momentum.dtype
        gradient, weight = ops.cast(gradient, dtype), ops.cast(variable, dtype)
        self.assign(momentum, momentum * self.momentum + gradient)
        towards = gradient + momentum * self.momentum if self.nesterov else momentum
        rate = ops.cast(learning_rate, dtype) * self._multipliers[index]
        move = orthogonalised(towards, self.products) * (rate * RMS * max(variable.shape) ** 0.5)
        if self._decays[index] and self.decay_rate:
            move = move + weight * (rate * self.decay_rate)
        self._subtract(index, variable, weight, move)

    def get_config(self):
        own = {name: getattr(self, name) for name in ("momentum", "nesterov", "products")}
        return {**super().get_config(), "matrices": list(self.matrices), **own}


def is_matrix(path: str, shape: Sequence[int], patterns: Sequence[str] = BLOCK_MATRICES) -> bool:
    """Whether a variable is a matrix for `Muon`: its path matches, and it has two axes."""
    return len(shape) == 2 and matches_any(path, patterns)


def orthogonalised(matrix: Any, products: str = "float32") -> Any:
    """A matrix with the same singular vectors and singular values near 1: values of 0.01 to 1 times its norm end in [0.7, 1.2].

    Args:
        matrix: a tensor, `(rows, columns)`.
        products: the dtype of the products.

    Returns:
        A tensor of the shape and dtype of the matrix; zeros for zeros.

    Reference: Jordan et al., 2024; Bernstein and Newhouse, 2024, appendix A (https://arxiv.org/abs/2409.20325).
    """
    rows, columns = matrix.shape
    x = ops.transpose(matrix) if rows > columns else matrix  # the smaller one of both products with the transpose
    # The Frobenius norm is at least the largest singular value.
    x = ops.cast(x / (ops.sqrt(ops.sum(ops.square(x))) + 1e-7), products)
    for _ in range(ROUNDS):
        square = ops.matmul(x, ops.transpose(x))
        x = _A * x + ops.matmul(_B * square + _C * ops.matmul(square, square), x)
    x = ops.cast(x, matrix.dtype)
    return ops.transpose(x) if rows > columns else x
