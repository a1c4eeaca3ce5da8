"""LAMB: Adam whose step is as long as the weight it changes."""

import keras
from keras import ops

from keras_bert_rebuild.training.by_path import ByPathOptimizer


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Lamb(ByPathOptimizer):
    """The optimizer of large batches, as its paper has it.

        r = (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
        w ← w − rate · ‖w‖ / ‖r + weight_decay · w‖ · (r + weight_decay · w)

    with m and v those of Adam, φ the identity, and a ratio of 1 where either norm is 0. Weight decay is inside the ratio: in
    Keras's `Lamb` it is outside. A layer is a variable. Those that `no_decay` names have neither decay nor ratio, which is Adam.

    The moments are corrected for their bias, as in Algorithm 2. The paper's appendix finds that the correction acts as a warm-up
    does; `bias_correction=False` leaves it out, as the optimizer of google-research/albert does.

    Arguments are those of `AdamW`. Rates are higher: the step of a layer is `rate` times its norm. A `global_clipnorm` of 1 is the
    gradient normalisation that training with very large batches is run with.

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
        of_weight, of_move = _norm(weight), _norm(move)
        both = ops.logical_and(of_weight > 0, of_move > 0)
        return move * ops.where(both, rate * of_weight / ops.where(both, of_move, 1.0), 1.0)


def _norm(x):
    return ops.sqrt(ops.sum(ops.square(x)))
