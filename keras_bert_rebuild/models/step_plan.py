"""The plan of a pretraining model's steps, which `compile` determines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.models.head_answers import check_needs_no_vocabulary, needs_of, takes_ids
from keras_bert_rebuild.models.loss_protocols import Gathers, TakesChunks, takes_logits
from keras_bert_rebuild.models.named_tensors import by_head
from keras_bert_rebuild.models.running_step import TEST, TRAIN


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

    skips_padding: bool = False
    """Whether a training step may leave out what layers compute at padding, since nothing reads it."""

    @classmethod
    def of_compiled(cls, heads: Sequence[str], loss: Any, metrics: Sequence[Any] = (), remat: bool = False) -> "StepPlan":
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
        metrics_of = {head: [metric for given in metrics for metric in _metrics_of(heads, head, given)] for head in heads}
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
