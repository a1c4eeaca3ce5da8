"""LAMB: Adam with steps proportional to the norms of the weights."""

import keras
from keras import ops

from keras_bert_rebuild.training.optimizers.by_path import ByPathOptimizer


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Lamb(ByPathOptimizer):
    """The optimizer for large batches, as in its paper.

        r = (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
        w ← w − rate · ‖w‖ / ‖r + weight_decay · w‖ · (r + weight_decay · w)

    with m and v of Adam, φ the identity, and a ratio of 1 if either norm is 0. Weight decay is inside the ratio; in Keras's `Lamb`
    it is outside. A layer is a variable. Variables in `no_decay` have neither decay nor ratio, as in Adam.

    The moments are corrected for their bias, as in Algorithm 2. The paper's appendix finds that the correction acts like a warm-up;
    `bias_correction=False` omits it, as the optimizer of google-research/albert does.

    The arguments are those of `AdamW`. Rates are higher: the step of a layer is `rate` times its norm. A `global_clipnorm` of 1 is
    the usual gradient normalisation for very large batches.

    Example:

    >>> import numpy as np
    >>> kernel = keras.Variable(np.array([3.0, 4.0]), name="kernel")
    >>> optimizer = Lamb(0.5, weight_decay=0.0)
    >>> optimizer.build([kernel])
    >>> optimizer.apply([np.array([1.0, 0.0], "float32")])
    >>> kernel.numpy().round(4).tolist()
    [0.5, 4.0]

    Reference: You et al., 2020, Algorithm 2 (https://arxiv.org/abs/1904.00962).
    """

    def adapted(self, move, weight, rate):
        # The norm of `move` is rate · ‖r + weight_decay · w‖.
        weight_norm, move_norm = _norm(weight), _norm(move)
        both = ops.logical_and(weight_norm > 0, move_norm > 0)
        return move * ops.where(both, rate * weight_norm / ops.where(both, move_norm, 1.0), 1.0)


def _norm(x):
    return ops.sqrt(ops.sum(ops.square(x)))
