"""What losses and metrics say of themselves by attributes, whoever wrote them: the protocols that `compile` looks for.

A loss that has none of these attributes is Keras's business alone.
"""

from typing import Protocol, runtime_checkable


@runtime_checkable
class TakesLogits(Protocol):
    """A loss or a metric that takes logits, if the attribute is true."""

    takes_logits: bool


@runtime_checkable
class TakesLogProbabilities(Protocol):
    """A metric that takes logits whose exponentials sum to 1, if the attribute is true."""

    takes_log_probabilities: bool


@runtime_checkable
class TakesChains(Protocol):
    """A loss that takes the outputs of a `ConditionalRandomField`, if the attribute is true."""

    takes_chains: bool


@runtime_checkable
class FromLogits(Protocol):
    """A loss with Keras's own word for logits, true, or probabilities, false."""

    from_logits: bool


@runtime_checkable
class Gathers(Protocol):
    """A loss of the MLM head that wants so many positions of every example, or all if the attribute is None."""

    max_predictions: int | None


@runtime_checkable
class TakesChunks(Protocol):
    """A loss of the MLM head that takes `label_log_probabilities`, computed at so many positions at once; logits if it is None."""

    chunk: int | None


@runtime_checkable
class Ignores(Protocol):
    """A loss for which a label of this value does not count, so that metrics leave it out too."""

    ignored: int | None


def takes_logits(one: object) -> bool:
    """Whether a loss or a metric says that it takes logits."""
    return isinstance(one, TakesLogits) and bool(one.takes_logits)
