"""The base class of our optimizers: Adam's moments, rules by variable path, and averaged weights."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.optimizers.path_patterns import NO_DECAY, check_patterns, first_match, matches_any
from keras_bert_rebuild.training.optimizers.whole_batch import OfWholeBatch

# Keras's averages are updated with every batch instead of every optimizer step; `ema_momentum` replaces these arguments.
_UNSUPPORTED = ("use_ema", "ema_overwrite_frequency")


class ByPathOptimizer(OfWholeBatch, keras.optimizers.Optimizer):
    """Adam's moments with decoupled weight decay; the path of a variable decides how it is updated. Abstract.

        m ← β₁ m + (1 − β₁) g                   v ← β₂ v + (1 − β₂) g²
        r = (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
        w ← w − adapted(rate · (r + weight_decay · w))
        average ← ema_momentum · average + (1 − ema_momentum) · w        starting with the weights before the first step

    A subclass defines `adapted`, and may define `limited_rate`, or another step for some variables. t counts optimizer steps from
    1; rate is the schedule at t − 1 times the multiplier of the path; g is the clipped mean of the accumulated gradients.
    Arithmetic and state of float16 and bfloat16 variables are float32: in half precision, a moving average of squares would lose
    its small updates.

    The default name is that of the class, without a number, so that the paths of the state are the same in every process:
    `AdamW/Encoder-1-FeedForward_output_kernel_momentum`, `..._velocity`, `..._average_offset`. The last is the average minus the
    weight. It starts at 0, which is also right for weights that are loaded after the optimizer was built, and for weights that
    never have a gradient.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-4,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        *,
        no_decay: Sequence[str] = NO_DECAY,
        rate_multipliers: Mapping[str, float] | None = None,
        ema_momentum: float | None = None,
        bias_correction: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        rate_multipliers = dict(rate_multipliers or {})
        check_patterns("no_decay", no_decay)
        check_patterns("rate_multipliers", rate_multipliers)
        _check_numbers(weight_decay, beta_1, beta_2, epsilon, rate_multipliers, ema_momentum)
        unsupported = [argument for argument in _UNSUPPORTED if argument in kwargs]
        if unsupported:
            raise ValueError(f"averaged weights are set by ema_momentum only; got {', '.join(unsupported)}.")
        super().__init__(learning_rate=learning_rate, name=name or type(self).__name__, **kwargs)
        # Not `self.weight_decay`: Keras itself decays weights if that is set.
        self.decay_rate = weight_decay or 0.0
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.no_decay = list(no_decay)
        self.rate_multipliers = rate_multipliers
        self.ema_momentum = ema_momentum
        self.bias_correction = bias_correction

    @property
    def learning_rate(self):
        """The learning rate of the current optimizer step; Keras itself would call a schedule with the number of the batch."""
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate(self.iterations)
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        keras.optimizers.Optimizer.learning_rate.fset(self, learning_rate)

    def prepare(self, var_list: Sequence[Any]) -> None:
        self._momentums = [self._add_state(variable, "momentum") for variable in var_list]
        self._velocities = [self._add_state(variable, "velocity") if self.has_velocity(variable) else None for variable in var_list]
        if self.ema_momentum is not None:
            self._average_offsets = [self._add_state(variable, "average_offset") for variable in var_list]
        self._decays = tuple(self.decays(variable) for variable in var_list)
        self._multipliers = tuple(self.rate_multiplier(variable) for variable in var_list)
        self._check_multipliers_are_used([variable.path for variable in var_list])
        if hasattr(self._learning_rate, "add_variables"):  # a schedule with state, which is saved in checkpoints
            self._learning_rate.add_variables(self)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        dtype = momentum.dtype
        gradient, weight = ops.cast(gradient, dtype), ops.cast(variable, dtype)
        self.assign_add(momentum, (gradient - momentum) * (1.0 - self.beta_1))
        self.assign_add(velocity, (ops.square(gradient) - velocity) * (1.0 - self.beta_2))
        correction_1, correction_2 = self._correction(self.beta_1, dtype), ops.sqrt(self._correction(self.beta_2, dtype))
        rate = ops.cast(learning_rate, dtype) * self._multipliers[index]
        rate = self.limited_rate(rate, gradient, velocity, correction_2)
        # rate · r, with the bias corrections applied to scalars, which saves two passes over memory.
        move = momentum / (ops.sqrt(velocity) + self.epsilon * correction_2) * (rate * correction_2 / correction_1)
        if self._decays[index]:
            if self.decay_rate:
                move = move + weight * (rate * self.decay_rate)
            move = self.adapted(move, weight, rate)
        self._subtract(index, variable, weight, move)

    def adapted(self, move: Any, weight: Any, rate: Any) -> Any:
        """The step of a variable that decays, computed from `move`, which is rate · (r + weight_decay · weight)."""
        raise NotImplementedError(f"{type(self).__name__} must define adapted.")

    def limited_rate(self, rate: Any, gradient: Any, velocity: Any, correction: Any) -> Any:
        """The learning rate of a variable, from `rate` of schedule and path; `correction` is √(1 − β₂ᵗ)."""
        return rate

    def has_velocity(self, variable: Any) -> bool:
        """Whether a variable has a second moment."""
        return True

    def _subtract(self, index, variable, weight, move):
        """Subtract the step of a variable from its value, and update its average."""
        new = ops.cast(weight - move, variable.dtype)
        if self.ema_momentum is not None:
            # average − w: the offset grows by what the weight loses, which is not exactly `move`, since w is rounded.
            offset = self._average_offsets[index]
            self.assign(offset, (offset + (weight - ops.cast(new, offset.dtype))) * self.ema_momentum)
        self.assign(variable, new)

    def decays(self, variable: Any) -> bool:
        """Whether a variable decays, by its path; `Lamb` adapts the same variables."""
        return not matches_any(variable.path, self.no_decay)

    def rate_multiplier(self, variable: Any) -> float:
        """The factor of the learning rate for a variable, by its path."""
        return float(first_match(variable.path, self.rate_multipliers, default=1.0))

    def average_of(self, variable: Any) -> Any:
        """The average of a trained variable, a float32 tensor even for half precision; None if it has none."""
        offset = self.average_offset_of(variable)
        return None if offset is None else ops.cast(variable, offset.dtype) + offset

    def average_offset_of(self, variable: Any) -> Any:
        """The optimizer's variable with the average minus the weight; None if there is none."""
        if not self.built or self.ema_momentum is None:
            return None
        try:
            return self._average_offsets[self._get_variable_index(variable)]
        except KeyError:
            return None

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Sequence[str] | None = None) -> None:
        """Not supported: Keras would neither use paths nor save the exclusions."""
        raise ValueError("weights without decay must be set in the constructor: no_decay, regular expressions over variable paths.")

    def get_config(self):
        config = {key: value for key, value in super().get_config().items() if key not in _UNSUPPORTED}
        return {
            **config,
            "weight_decay": self.decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "no_decay": list(self.no_decay),
            "rate_multipliers": dict(self.rate_multipliers),
            "ema_momentum": self.ema_momentum,
            "bias_correction": self.bias_correction,
        }

    def _add_state(self, variable, name):
        """An optimizer variable for a variable of the model, in float32 if that is in half precision."""
        if variable.dtype not in ("float16", "bfloat16"):
            return self.add_variable_from_reference(variable, name=name)
        name = f"{variable.path.replace('/', '_')}_{name}"
        layout = getattr(variable, "_layout", None)
        return self.add_variable(variable.shape, dtype="float32", layout=layout, name=name)

    def _correction(self, beta, dtype):
        """1 − βᵗ, in full precision also for β = 0.999 and t = 1."""
        if not (self.bias_correction and beta):
            return ops.ones((), dtype=dtype)
        return -ops.expm1(ops.cast(self.iterations + 1, dtype) * math.log(beta))

    def _check_multipliers_are_used(self, paths):
        patterns = list(self.rate_multipliers)
        if patterns and not any(matches_any(path, patterns) for path in paths):
            raise ValueError(
                f"rate_multipliers must have a pattern that matches the path of a trained variable, such as {paths[0]!r}; "
                f"got {', '.join(map(repr, patterns))}."
            )


def _check_numbers(weight_decay, beta_1, beta_2, epsilon, rate_multipliers, ema_momentum):
    multipliers = ((f"the rate multiplier of {pattern!r}", value) for pattern, value in rate_multipliers.items())
    for name, value in (("weight_decay", weight_decay), ("epsilon", epsilon), *multipliers):
        if value is not None and value < 0:
            raise ValueError(f"{name} must not be negative; got {value}.")
    for name, value in (("beta_1", beta_1), ("beta_2", beta_2), ("ema_momentum", ema_momentum)):
        if value is not None and not 0 <= value < 1:
            raise ValueError(f"{name} must be in [0, 1); got {value}.")


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[keras.Model]:
    """Assign the optimizer's moving averages to the model within a context, and restore the exact weights afterwards.

    Evaluate, predict and save inside the context, train outside. Before the first step the averages are the weights. A nested
    context has no effect.

    Args:
        model: compiled with an optimizer of this library and an `ema_momentum`.

    Raises:
        ValueError: the optimizer has no averages.

    Reference: Polyak and Juditsky, 1992; Tarvainen and Valpola, 2017, section 2 (https://arxiv.org/abs/1703.01780).
    """
    optimizer = _averaging_optimizer(model)
    before = []
    try:
        for weight in model.weights:
            offset = optimizer.average_offset_of(weight)
            if offset is None:
                continue
            average = optimizer.average_of(weight)
            # Copies: torch assigns the value of a variable in place.
            before += [(variable, ops.copy(variable.value)) for variable in (weight, offset)]
            weight.assign(ops.cast(average, weight.dtype))
            offset.assign(ops.zeros_like(offset.value))
        yield model
    finally:
        for variable, value in before:
            variable.assign(value)


def _averaging_optimizer(model):
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of Keras's LossScaleOptimizer
    if getattr(optimizer, "ema_momentum", None) is None or not hasattr(optimizer, "average_of"):
        shown = "no optimizer" if optimizer is None else f"{type(optimizer).__name__} without them"
        raise ValueError(f"averaged weights need a model compiled with AdamW or Lamb and an ema_momentum; got {shown}.")
    # In a callback of `fit` on JAX, this copies the current values to the variables.
    getattr(model, "jax_state_sync", lambda: None)()
    return optimizer
