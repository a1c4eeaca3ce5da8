"""AdamW whose updates stay bounded while the second moment lags behind the gradient."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.optimizers.by_path import ByPathOptimizer

# Below the square of any usual epsilon, and above float32's smallest number: a gradient of 0 has the ratio 0 even with epsilon 0.
_TINY = 1e-36


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class StableAdamW(ByPathOptimizer):
    """AdamW with AdaFactor's update clipping, which limits the learning rate of each variable.

        RMS = √(mean(g² / max(v / (1 − β₂ᵗ), ε²)))        over the entries of the variable
        w ← w − rate / max(1, RMS) · ((m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε) + weight_decay · w)

    with Adam's m and v, which already include g. RMS is about 1 while gradients keep their size. When they grow suddenly, v lags
    behind, Adam's steps are too long, and the loss may spike; here the learning rate of the variable is divided by RMS instead.
    Gradients then need no clipping, though `global_clipnorm` works. ModernBERT was trained with it, at β₂ = 0.98 and ε = 1e-6.

    The arguments are those of `AdamW`.

    Example:

    >>> import numpy as np
    >>> kernel = keras.Variable(np.zeros(1), name="kernel")
    >>> optimizer = StableAdamW(0.5, weight_decay=0.0, beta_1=0.0, beta_2=0.5)
    >>> optimizer.build([kernel])
    >>> for gradient in (1.0, 7.0):
    ...     optimizer.apply([np.array([gradient], "float32")])
    >>> kernel.numpy().round(4).tolist()  # 0.5 for the first step, then 0.5 / (RMS = 1.2157) · 1.2157
    [-1.0]

    Reference: Wortsman et al., 2023, Algorithm 2 (https://arxiv.org/abs/2304.13013); Warner et al., 2024, section 2.3
    (https://arxiv.org/abs/2412.13663).
    """

    def adapted(self, move, weight, rate):
        return move

    def limited_rate(self, rate: Any, gradient: Any, velocity: Any, correction: Any) -> Any:
        smallest = max(self.epsilon**2, _TINY)
        # The correction is a scalar: multiplying the mean by it avoids an array for v / (1 − β₂ᵗ).
        squares = ops.square(correction)
        ratio = ops.square(gradient) / ops.maximum(velocity, smallest * squares)
        return rate / ops.maximum(ops.sqrt(ops.mean(ratio) * squares), 1.0)
