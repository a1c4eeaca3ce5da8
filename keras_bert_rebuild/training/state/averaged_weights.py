"""The averaged weights of a training instead of the last ones."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[keras.Model]:
    """Put the optimizer's averages into the model, and restore the weights afterwards, bit by bit.

    Evaluate, predict and save inside the context, train outside. Before the first step the averages are the weights. A context
    inside another one changes nothing.

    Args:
        model: compiled with `AdamW` or `Lamb` and an `ema_momentum`.

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
    # In a callback of `fit` on JAX, this writes the current values into the variables.
    getattr(model, "jax_state_sync", lambda: None)()
    return optimizer
