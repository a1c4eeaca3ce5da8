"""Attributes by which losses and metrics describe themselves, as protocols for `compile`.

A loss without any of these attributes is left to Keras.
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
    """A loss with Keras's attribute `from_logits`: true for logits, false for probabilities."""

    from_logits: bool


@runtime_checkable
class Gathers(Protocol):
    """A loss of the MLM head that takes this many positions per example, or all if the attribute is None."""

    max_predictions: int | None


@runtime_checkable
class TakesChunks(Protocol):
    """A loss of the MLM head that takes `label_log_probabilities`, computed for this many positions at once; logits if None."""

    chunk: int | None


@runtime_checkable
class Ignores(Protocol):
    """A loss that ignores labels of this value, so that metrics ignore them too."""

    ignored: int | None


def takes_logits(loss: object) -> bool:
    """Whether a loss or a metric declares that it takes logits."""
    return isinstance(loss, TakesLogits) and bool(loss.takes_logits)
