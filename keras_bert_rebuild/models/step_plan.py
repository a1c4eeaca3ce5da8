"""The plan of a pretraining model's steps, which `compile` determines: which heads return logits and which probabilities, and what
losses and metrics accept."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.layers import ConditionalRandomField, EmbeddingSimilarity, Masked
from keras_bert_rebuild.models.loss_protocols import (
    FromLogits,
    Gathers,
    TakesChains,
    TakesChunks,
    TakesLogProbabilities,
    takes_logits,
)
from keras_bert_rebuild.models.named_tensors import by_head
from keras_bert_rebuild.models.running_step import TEST, TRAIN

PROBABILITIES, LOGITS, LOG_PROBABILITIES = "probabilities", "logits", "log-probabilities"
CHAINS = "the outputs of a ConditionalRandomField"

# What a training step may leave padding out of.
BLOCKS, FEED_FORWARD = "blocks", "feed-forward networks"

# Metrics that depend only on the class with the largest value, and so accept both logits and probabilities.
ACCURACIES = ("accuracy", "acc", "sparse_categorical_accuracy")


def answer_of(model, head):
    """The kind of an output of a functional model, by its last layer.

    Args:
        model: a functional model.
        head: one of its `output_names`.

    Returns:
        `PROBABILITIES` after a softmax, `LOGITS` after a dense layer without activation, `CHAINS` after a conditional random
        field, None after any other layer.
    """
    layer = model.get_layer(head)
    if isinstance(layer, Masked):  # a layer that passes on its input
        layer = next((other for other in model.layers if other.output is layer.input[0]), layer)
    if isinstance(layer, (EmbeddingSimilarity, keras.layers.Softmax)):
        return PROBABILITIES
    if isinstance(layer, ConditionalRandomField):
        return CHAINS
    activation = getattr(layer, "output_activation", getattr(layer, "activation", None))
    if activation is keras.activations.softmax:
        return PROBABILITIES
    return LOGITS if isinstance(layer, keras.layers.Dense) and activation is keras.activations.linear else None


def check_losses(heads, loss, answer):
    """Refuse a loss that would silently treat logits as probabilities, or probabilities as logits.

    Args:
        heads: the names of the outputs.
        loss: as for `keras.Model.compile`.
        answer: a function of a head and its loss that returns the kind of the output; None if it is unknown.

    Raises:
        ValueError: there is such a loss.
    """
    for head, head_loss in by_head(heads, loss, strict=False).items():
        taken, returned = _taken(head_loss), answer(head, head_loss)
        if None not in (taken, returned) and taken != returned:
            name = head_loss if isinstance(head_loss, str) else getattr(head_loss, "__name__", type(head_loss).__name__)
            wanted = "ConditionalRandomFieldLoss" if returned == CHAINS else f"from_logits={returned == LOGITS}"
            raise ValueError(
                f"the loss of {head} must take {returned}, which the head returns ({wanted}); got {name}, which takes {taken}."
            )


def takes_ids(loss):
    """Whether the labels of a loss are ids: for our losses and Keras's sparse cross-entropy. Other losses, such as one against the
    probabilities of a teacher, define their own labels."""
    if loss is None or takes_logits(loss):
        return loss is not None
    loss = keras.losses.get(loss)
    sparse = keras.losses.SparseCategoricalCrossentropy
    return isinstance(loss, sparse) or loss is keras.losses.sparse_categorical_crossentropy


def needs_of(head, metrics):
    """The kind of output that all metrics of one head need.

    A metric that `TakesLogits` takes logits, and if it `TakesLogProbabilities`, logits whose exponentials sum to 1; an accuracy
    takes anything; an unknown metric takes probabilities.

    Args:
        head: the name of the head, for the error.
        metrics: the metrics, names or objects.

    Returns:
        `PROBABILITIES`, `LOGITS` or `LOG_PROBABILITIES`; None if all accept any kind.

    Raises:
        ValueError: some metrics take probabilities and others logits.
    """
    demanding = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
    with_logits = [metric for metric in demanding if takes_logits(metric)]
    with_probabilities = [metric for metric in demanding if not takes_logits(metric)]
    if not demanding:
        return None
    if with_logits and with_probabilities:
        raise ValueError(
            f"metrics of {head}: expected metrics that all take logits or all take probabilities; got {_names(with_logits)}, which "
            f"take logits, and {_names(with_probabilities)}."
        )
    if with_probabilities:
        return PROBABILITIES
    normalised = any(isinstance(metric, TakesLogProbabilities) and metric.takes_log_probabilities for metric in with_logits)
    return LOG_PROBABILITIES if normalised else LOGITS


def check_needs_no_vocabulary(head, metrics):
    """Refuse metrics that need the whole vocabulary, for a loss that is computed in chunks."""
    if needs_of(head, metrics) == PROBABILITIES:
        wrong = [metric for metric in metrics if metric is not None and not _is_accuracy(metric)]
        raise ValueError(
            f"metrics of {head}: with a loss in chunks expected accuracies and metrics that take log-probabilities, such as "
            f"Perplexity; got {_names(wrong)}, which need the probability of every token: compile with loss_chunk=None."
        )


def as_needed(output, kind, need):
    """An output in the form that metrics need.

    Args:
        output: `(..., classes)`.
        kind: its kind, `LOGITS` or `PROBABILITIES`.
        need: the result of `needs_of`.
    """
    if need is None:
        return output
    if kind == PROBABILITIES:
        return output if need == PROBABILITIES else log_of(output)
    return {PROBABILITIES: ops.softmax, LOGITS: ops.copy, LOG_PROBABILITIES: ops.log_softmax}[need](output)


def log_of(probabilities):
    """Logarithms of probabilities, finite even for 0; the softmax of these logits are the probabilities."""
    return ops.log(ops.maximum(probabilities, 1e-37))


def _taken(loss):
    """The kind of input of a loss, logits or probabilities; None if it is unknown."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if isinstance(loss, TakesChains) and loss.takes_chains:
        return CHAINS
    from_logits = loss.from_logits if isinstance(loss, FromLogits) else None
    if inspect.isfunction(loss) and "from_logits" in inspect.signature(loss).parameters:
        from_logits = inspect.signature(loss).parameters["from_logits"].default
    return {True: LOGITS, False: PROBABILITIES}.get(from_logits)


def _is_accuracy(metric):
    return metric in ACCURACIES if isinstance(metric, str) else type(metric) is keras.metrics.SparseCategoricalAccuracy


def _names(metrics):
    return ", ".join(metric if isinstance(metric, str) else getattr(metric, "name", repr(metric)) for metric in metrics)


@dataclass(frozen=True)
class HeadPlan:
    """One head in a training or test step."""

    name: str
    """The name of the output."""

    takes_logits: bool
    """Whether its loss takes logits, so that the head returns them."""

    takes_ids: bool
    """Whether its labels are ids."""

    metrics: str | None
    """The result of `needs_of` for its metrics."""


@dataclass(frozen=True)
class StepPlan:
    """How a training or test step differs from a call of the model; by default not at all."""

    heads: tuple[HeadPlan, ...] = ()
    """In the order of the outputs."""

    max_predictions: int | None = None
    """Number of positions per example at which the MLM head is computed; None for all."""

    chunk: int | None = None
    """Number of positions of a batch whose MLM logits are in memory at once; None for all."""

    remat: bool = False
    """Whether a training step recomputes the activations of encoder blocks in the backward pass."""

    without_padding: str | None = None
    """What a training step need not compute at padding, since nothing reads it: `BLOCKS`, `FEED_FORWARD` alone, or None."""

    @classmethod
    def from_compiled(cls, heads: Sequence[str], loss: Any, metrics: Sequence[Any] = (), remat: bool = False) -> "StepPlan":
        """The plan for the arguments of `compile`.

        Args:
            heads: the names of the outputs, with "MLM" among them.
            loss: as for `compile`.
            metrics: the metrics and the weighted metrics.
            remat: see the field.

        Raises:
            ValueError: losses have unknown names, or metrics of one head need different kinds of outputs, or logits that a chunked
                loss does not have.
        """
        metrics_of = {head: [metric for several in metrics for metric in _metrics_of(heads, head, several)] for head in heads}
        needs = {head: needs_of(head, of_head) for head, of_head in metrics_of.items()}
        losses = by_head(heads, loss)
        mlm = losses["MLM"] if takes_logits(losses["MLM"]) else None
        chunk = mlm.chunk if isinstance(mlm, TakesChunks) else None
        if chunk is not None:
            check_needs_no_vocabulary("MLM", metrics_of["MLM"])
        return cls(
            tuple(HeadPlan(head, takes_logits(loss), takes_ids(loss), needs[head]) for head, loss in losses.items()),
            max_predictions=mlm.max_predictions if isinstance(mlm, Gathers) else None,
            chunk=chunk,
            remat=remat,
        )

    @property
    def gives_logits(self) -> bool:
        """Whether any head returns logits."""
        return any(head.takes_logits for head in self.heads)

    def changes(self, kind: str) -> bool:
        """Whether a step of this kind differs from a call of the model."""
        return (self.remat and kind == TRAIN) or (self.gives_logits and kind in (TRAIN, TEST))


def _metrics_of(heads, head, metrics):
    """The metrics of one head, from the `compile` argument for all."""
    if len(heads) > 1 or isinstance(metrics, dict):
        metrics = by_head(heads, metrics, strict=False)[head] if isinstance(metrics, (dict, list, tuple)) else metrics
    return keras.tree.flatten(metrics)
