"""Operations of optimizers that have kernels; the optimizers have the plain forms."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras_bert_rebuild.kernels.choice import choose


class Unclipped(NamedTuple):
    """A gradient that is not clipped yet, and the factor that the step multiplies it by."""

    gradient: Any
    factor: Any


def unclipped(gradients: list[Any], norm: float) -> list[Unclipped] | None:
    """Gradients for `adam_step`, which clips their global norm; None if they must be clipped before the step.

    Args:
        gradients: tensors.
        norm: the maximum global norm, above 0.
    """
    kernel = choose("clip_factor")
    factor = None if kernel is None else kernel(gradients, norm)
    return None if factor is None else [Unclipped(gradient, factor) for gradient in gradients]


def adam_step(weight: Any, momentum: Any, averages: bool) -> Callable[..., None] | None:
    """The kernel of Adam's step with decoupled weight decay, `tensorflow_adam.apply_adam`; None if the plain step must run.

    Args:
        weight, momentum: variables of the model and of the optimizer.
        averages: whether the optimizer also averages the weights.
    """
    return choose("adam_step", weight.dtype, momentum.dtype, averages)


def adam_steps(weights: Sequence[Any], momentums: Sequence[Any], averages: bool) -> Callable[..., None] | None:
    """The kernel of such steps of many variables at once, `torch_adam.apply_adam`; None if there is none.

    Args:
        weights, momentums: variables of the model and of the optimizer.
        averages: whether the optimizer also averages the weights.
    """
    return choose("adam_steps", weights, momentums, averages)
