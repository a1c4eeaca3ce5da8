"""AdamW, AdamW with bounded updates, and LAMB, whose steps are proportional to the norms of the weights, by variable paths."""

import collections
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.training.optimizers.by_path import ByPathOptimizer

# Below the square of any usual epsilon, and above float32's smallest number: a gradient of 0 has the ratio 0 even with epsilon 0.
_TINY = 1e-36


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class AdamW(ByPathOptimizer):
    """Adam with decoupled weight decay: the optimizer of BERT.

        m ← β₁ m + (1 − β₁) g                   v ← β₂ v + (1 − β₂) g²
        w ← w − rate · ((m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε) + weight_decay · w)

    t, the learning rate schedule and the average count optimizer steps, also with gradient accumulation.

    Args:
        learning_rate: a number, or a schedule in optimizer steps such as `WarmupLinearDecay`.
        weight_decay: decoupled weight decay, multiplied by the learning rate; 0 for none.
        beta_1, beta_2: decay of the first and second moment, in [0, 1).
        epsilon: added to the bias-corrected root.
        no_decay: regular expressions; variables with a match in their path do not decay. By default biases, and the gamma and
            beta of layer normalisations.
        rate_multipliers: `{regular expression: factor of the learning rate}`, such as from `layer_rates`; the first match in the
            path counts, without a match 1. Weight decay is multiplied too.
        ema_momentum: momentum of the moving average of the weights, in [0, 1); `averaged_weights` assigns the averages to the
            model. None for no averages.
        bias_correction: False omits 1 − βᵗ, as the optimizer of google-research/bert does.
        name: first part of the paths of the optimizer's variables; "AdamW" if None.
        **kwargs: the clipping and accumulation arguments of `keras.optimizers.Optimizer`. `global_clipnorm` clips the norm of the
            accumulated mean of all gradients.

    Raises:
        ValueError: a number is out of range, a pattern is not a regular expression, or no pattern of the multipliers matches.

    Example:

    >>> import numpy as np
    >>> kernel, bias = keras.Variable(np.ones(1), name="kernel"), keras.Variable(np.ones(1), name="bias")
    >>> optimizer = AdamW(0.5, weight_decay=0.5)
    >>> optimizer.build([kernel, bias])
    >>> optimizer.apply([np.zeros(1, "float32"), np.zeros(1, "float32")])
    >>> kernel.numpy().tolist(), bias.numpy().tolist()
    ([0.75], [1.0])

    Reference: Loshchilov and Hutter, 2019, Algorithm 2 (https://arxiv.org/abs/1711.05101); what decays, Devlin et al., 2019.
    """

    def _clip_gradients(self, grads):
        unclipped = kernels.unclipped(grads, self.global_clipnorm) if self.global_clipnorm and not self.clipnorm else None
        return super()._clip_gradients(grads) if unclipped is None else unclipped

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        indices = [self._get_variable_index(variable) for variable in trainable_variables]
        momentums = [self._momentums[index] for index in indices]
        # A subclass may have a step of its own.
        own = type(self).update_step is not AdamW.update_step
        apply_adam = None if own else kernels.adam_steps(trainable_variables, momentums, averages=self.ema_momentum is not None)
        if apply_adam is None:
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        groups = collections.defaultdict(list)
        for index, gradient, variable in zip(indices, grads, trainable_variables, strict=True):
            alike = self._multipliers[index], self.decay_rate if self._decays[index] else 0.0
            gradient = gradient.gradient * gradient.factor if isinstance(gradient, kernels.Unclipped) else gradient
            groups[alike].append((gradient, variable, self._momentums[index], self._velocities[index]))
        for (multiplier, decay_rate), group in groups.items():
            apply_adam(
                *zip(*group, strict=True),
                rate=ops.convert_to_tensor(learning_rate) * multiplier,
                steps=self.iterations if self.bias_correction else None,
                beta_1=self.beta_1,
                beta_2=self.beta_2,
                epsilon=self.epsilon,
                decay_rate=decay_rate,
            )

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        gradient, factor = gradient if isinstance(gradient, kernels.Unclipped) else (gradient, None)
        apply_adam = kernels.adam_step(variable, momentum, averages=self.ema_momentum is not None)
        if apply_adam is None:
            gradient = gradient if factor is None else gradient * ops.cast(factor, gradient.dtype)
            super().update_step(gradient, variable, learning_rate)
            return
        # The kernel computes 1 − β from β in the variable's precision, off by 1e-5 for 0.999; so does the correction.
        beta_1, beta_2 = (float(np.asarray(beta, momentum.dtype)) for beta in (self.beta_1, self.beta_2))
        correction_1, correction_2 = self._correction(beta_1, momentum.dtype), ops.sqrt(self._correction(beta_2, momentum.dtype))
        rate = ops.cast(learning_rate, momentum.dtype) * self._multipliers[index]
        apply_adam(
            ops.cast(gradient, momentum.dtype),
            *(v.value if isinstance(v, keras.Variable) else v for v in (variable, momentum, velocity)),
            scale=None if factor is None else ops.cast(factor, momentum.dtype),
            rate=rate * correction_2 / correction_1,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=self.epsilon * correction_2,
            decay=rate * self.decay_rate if self._decays[index] and self.decay_rate else None,
        )

    def adapted(self, move, weight, rate):
        return move


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Lamb(ByPathOptimizer):
    """LAMB, an optimizer for large batches, as in its paper.

        r = (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
        w ← w − rate · ‖w‖ / ‖r + weight_decay · w‖ · (r + weight_decay · w)

    with m and v of Adam, φ the identity, and a ratio of 1 if either norm is 0. Weight decay is inside the ratio; in Keras's `Lamb`
    it is outside. A layer is a variable. Variables in `no_decay` have neither decay nor ratio, as in Adam.

    The moments are corrected for their bias, as in Algorithm 2. The paper's appendix finds that the correction acts like a warm-up;
    `bias_correction=False` omits it, as the optimizer of google-research/albert does.

    The arguments are those of `AdamW`. Learning rates are higher: the step of a layer is `rate` times its norm. A `global_clipnorm`
    of 1 is usual for very large batches.

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
