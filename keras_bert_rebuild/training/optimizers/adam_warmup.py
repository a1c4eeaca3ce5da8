"""keras_bert's optimizer: Adam with warm-up, linear decay and weight decay."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.optimizers.whole_batch import OfWholeBatch


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class AdamWarmup(OfWholeBatch, keras.optimizers.Adam):
    """Adam with linear warm-up, linear decay of the learning rate, and decoupled weight decay.

        rate_t = learning_rate · t / warmup_steps                                              for t ≤ warmup_steps
        rate_t = min_lr + (learning_rate − min_lr) · (1 − min(t, decay_steps) / decay_steps)   after

        a = rate_t · √(1 − β₂ᵗ) / (1 − β₁ᵗ)        p ← p − a · (m / (√v + ε) + weight_decay · p)

    The decay is counted from step 0, so the learning rate drops after the warm-up, and weight decay is multiplied by the
    bias-corrected learning rate: both as in keras_bert. Unlike there, `weight_decay_pattern` and `amsgrad` work as documented.

    Args:
        decay_steps: optimizer steps, not epochs, after which the learning rate is `min_lr`.
        warmup_steps: warm-up steps.
        min_lr: final learning rate.
        learning_rate: peak learning rate, or a Keras schedule.
        beta_1, beta_2: decay of the first and second moment.
        epsilon: added to √v; None or 0 means 1e-7.
        weight_decay: decoupled weight decay, multiplied by the learning rate; 0 for none.
        weight_decay_pattern: decay the weights whose variable path contains one of these strings; None for all, [] for none.
        amsgrad: use the largest second moment so far.
        **kwargs: `lr` (another name of `learning_rate`), `decay` (divides the learning rate by 1 + decay · (t − 1)), and the
            clipping, EMA and accumulation arguments of `keras.optimizers.Optimizer`.

    Raises:
        ValueError: `decay_steps` is not above 0, or `weight_decay_pattern` is a single string.

    Reference: Kingma and Ba, 2015, section 2 (https://arxiv.org/abs/1412.6980), in the order of computation just before section
    2.1; Loshchilov and Hutter, 2019 (https://arxiv.org/abs/1711.05101); Reddi et al., 2018, for amsgrad.
    """

    def __init__(
        self,
        decay_steps: float,
        warmup_steps: float,
        min_lr: float = 0.0,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = 1e-7,
        weight_decay: float = 0.0,
        weight_decay_pattern: Sequence[str] | None = None,
        amsgrad: bool = False,
        name: str = "AdamWarmup",
        **kwargs: Any,
    ) -> None:
        if decay_steps <= 0:
            raise ValueError(f"decay_steps must be above 0; got {decay_steps}.")
        if isinstance(weight_decay_pattern, str):
            raise ValueError(f"weight_decay_pattern must be a list of strings or None; got the string {weight_decay_pattern!r}.")
        learning_rate = kwargs.pop("lr", learning_rate)
        decay = kwargs.pop("decay", 0.0)
        super().__init__(
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon or 1e-7,
            amsgrad=amsgrad,
            name=name,
            **kwargs,
        )
        self.decay = decay
        self.decay_steps = float(decay_steps)
        self.warmup_steps = float(warmup_steps)
        self.min_lr = min_lr
        # Not `self.weight_decay`: Keras itself decays weights if that is set.
        self.decay_rate = weight_decay or 0.0
        self.weight_decay_pattern = None if weight_decay_pattern is None else list(weight_decay_pattern)

    @property
    def lr(self) -> Any:
        """Another name of `learning_rate`: the peak learning rate, before warm-up and decay."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    def prepare(self, var_list: Sequence[Any]) -> None:
        self._decays = tuple(self.decays(variable) for variable in var_list)

    def restore(self, state: list[Any]) -> None:
        """Restore the state of a legacy file: our own, or keras_bert's, which is the step, all m, all v and all amsgrad moments."""
        moments = [*self._momentums, *self._velocities, *(self._velocity_hats if self.amsgrad else ())]
        shapes = [tuple(array.shape) for array in state]
        # Without amsgrad, older versions of Keras wrote an array of one number for each amsgrad moment.
        lengths = [1 + count * len(self._momentums) for count in (2, 3)]
        if shapes == [tuple(variable.shape) for variable in self.variables]:
            super().set_weights(state)
        elif len(state) in lengths and shapes[: 1 + len(moments)] == [(), *(tuple(variable.shape) for variable in moments)]:
            for variable, array in zip([self.iterations, *moments], state, strict=False):
                variable.assign(array)
        else:
            warnings.warn(
                f"the {len(state)} arrays of AdamWarmup's state in the file do not match this model: the optimizer restarts, "
                "with warm-up.",
                stacklevel=2,
            )

    def update_step(self, gradient, variable, learning_rate):
        step = ops.cast(self.iterations + 1, "float32")
        rate = self.rate_at(step, learning_rate)
        if self._decays[self._get_variable_index(variable)]:
            correction = ops.sqrt(1.0 - ops.power(self.beta_2, step)) / (1.0 - ops.power(self.beta_1, step))
            share = ops.cast(rate * correction * self.decay_rate, variable.dtype)
            # Before Adam's step, which does not depend on the weight: the decay is a fraction of the old weight.
            self.assign_sub(variable, ops.multiply(variable, share))
        super().update_step(gradient, variable, rate)

    def decays(self, variable: Any) -> bool:
        """Whether a variable decays, by its path."""
        if not self.decay_rate:
            return False
        return self.weight_decay_pattern is None or any(part in variable.path for part in self.weight_decay_pattern)

    def rate_at(self, step: Any, learning_rate: Any) -> Any:
        """The learning rate of a step, counted from 1, before bias correction."""
        step = ops.cast(step, "float32")
        rate = ops.cast(learning_rate, "float32") / (1.0 + self.decay * (step - 1.0))
        falling = self.min_lr + (rate - self.min_lr) * (1.0 - ops.minimum(step, self.decay_steps) / self.decay_steps)
        return ops.where(step <= self.warmup_steps, rate * step / max(self.warmup_steps, 1.0), falling)

    def get_config(self):
        return {
            **super().get_config(),
            "decay_steps": self.decay_steps,
            "warmup_steps": self.warmup_steps,
            "min_lr": self.min_lr,
            "decay": self.decay,
            "weight_decay": self.decay_rate,
            "weight_decay_pattern": self.weight_decay_pattern,
        }
