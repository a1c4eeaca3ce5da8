"""Operations outside of layers that backends do differently, each a seam with its plain form."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_bert_rebuild.layers.seam import seam


@seam
def replica_count() -> int:
    """How many replicas of a TensorFlow strategy share a batch; 1 outside its scope and on other backends."""
    return 1


@seam
def sum_over_replicas(gradients: list[Any]) -> list[Any]:
    """The gradients of the whole batch from those of each replica; None, for a variable without gradient, stays None."""
    return gradients


@seam
def mean_over_replicas(value: Any, count: Any) -> tuple[Any, Any, Any]:
    """The mean over the labels of all replicas.

    Args:
        value: what Keras computes on this replica: the mean over its labels, divided by the number of replicas.
        count: the number of its labels, or the sum of their weights.

    Returns:
        The part of this replica in the mean over all labels, which has the gradient; that mean; and an equal share of the count of
        all labels. On one device: value, value and count.
    """
    return value, value, count


@seam
def with_whole_weights(call: Callable[..., Any], model: Any) -> Callable[..., Any]:
    """`call`, a `stateless_call` of a model, on whole weights where replicas share them.

    Args:
        call: a function of values of trained and of other variables, and of inputs.
        model: the model.
    """
    return call


@seam
def bounded_scan(step: Callable[[Any, Any], Any], carry: Any, positions: Any) -> Any:
    """The carry after the last position: carry ← step(carry, position) for each position in order.

    Args:
        step: a function of a tuple of tensors and the tensors at a position that returns the next tuple.
        carry: the tuple before the first position.
        positions: tensors `(length, ...)`, split along their first axis.
    """
    return ops.scan(lambda carry, position: (step(carry, position), None), carry, positions)[0]


@seam
def unwritten(shape: Any, dtype: str) -> Any:
    """A tensor of arbitrary values for a variable that will be filled; its memory is not touched until then.

    Args:
        shape: shape of the tensor.
        dtype: dtype in Keras's spelling.
    """
    return ops.empty(shape, dtype)


@seam
def handed_over(array: Any) -> Any:
    """What to assign to a variable for an array nobody else will write to: the array itself if the backend copies it anyway."""
    return array


class Unclipped(NamedTuple):
    """A gradient that is not clipped yet, and the factor that the step multiplies it by."""

    gradient: Any
    factor: Any


@seam
def clip_factor(gradients: list[Any], norm: float) -> Any | None:
    """The factor that reduces the global norm of gradients to at most `norm`, at least float32; NaN if a gradient is not finite.

    None if gradients must be clipped before the step, which is the plain form.

    Args:
        gradients: tensors.
        norm: the maximum global norm, above 0.
    """
    return None


@seam
def adam_step(weight: Any, momentum: Any, averages: bool) -> Callable[..., None] | None:
    """A function that makes a step of Adam with decoupled weight decay, `tensorflow_adam.apply_adam`; None for the plain step.

    Args:
        weight, momentum: variables of the model and of the optimizer.
        averages: whether the optimizer also averages the weights.
    """
    return None


@seam
def adam_steps(weights: Any, momentums: Any, averages: bool) -> Callable[..., None] | None:
    """A function that makes such steps of many variables at once, `torch_kernels.apply_adam`; None if there is none.

    Args:
        weights, momentums: variables of the model and of the optimizer.
        averages: whether the optimizer also averages the weights.
    """
    return None


def unclipped(gradients: list[Any], norm: float) -> list[Unclipped] | None:
    """Gradients for `adam_step`, which clips their global norm; None if they must be clipped before the step.

    Args:
        gradients: tensors.
        norm: the maximum global norm, above 0.
    """
    factor = clip_factor(gradients, norm)
    return None if factor is None else [Unclipped(gradient, factor) for gradient in gradients]
