"""The plan of a pretraining model's steps, which `compile` determines, and the step that a thread is running."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.models.head_answers import check_needs_no_vocabulary, needs_of, takes_ids
from keras_bert_rebuild.models.loss_protocols import Gathers, TakesChunks, takes_logits

# Kinds of steps.
TRAIN, TEST, PREDICT = "train", "test", "predict"


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


@dataclass(frozen=True)
class RunningStep:
    """The step that a thread is running."""

    model: keras.Model
    kind: str
    """`TRAIN`, `TEST` or `PREDICT`."""

    labels: Any = None
    """The labels of the MLM head if it is computed in chunks, else None. Keras calls a model with its inputs only; without labels
    there, every chunk would have to be computed twice after the call, for the loss and for the metrics."""


# Replicas of MirroredStrategy are threads: an attribute of the model would leak from one to another.
_THREAD = threading.local()


@contextlib.contextmanager
def running(model: keras.Model, kind: str, labels: Any = None) -> Iterator[None]:
    """A context that marks that this thread is running a step of a model."""
    outer = getattr(_THREAD, "step", None)
    _THREAD.step = RunningStep(model, kind, labels)
    try:
        yield
    finally:
        _THREAD.step = outer


def running_step(model: keras.Model) -> RunningStep | None:
    """The step of this model that this thread is running."""
    step = getattr(_THREAD, "step", None)
    return step if step is not None and step.model is model else None


def by_head(heads: Sequence[str], values: Any) -> dict[str, Any]:
    """A value for every output, from a dictionary, a list, or one value for all outputs.

    Raises:
        ValueError: a dictionary has none of the names, or a list another length.
    """
    if isinstance(values, dict):
        if values and not set(heads) & set(values):
            raise ValueError(f"expected values by the names of the outputs, {', '.join(heads)}; got {', '.join(map(str, values))}.")
        return {head: values.get(head) for head in heads}
    values = values if isinstance(values, (list, tuple)) else [values] * len(heads)
    if len(values) != len(heads):
        raise ValueError(f"expected one value for each of the outputs {', '.join(heads)}; got {len(values)}.")
    return dict(zip(heads, values, strict=True))


def in_order(heads: Sequence[str], values: Mapping[str, Any]) -> Any:
    """The values in the order of the outputs; for a single output the value itself, not a list."""
    return bare_if_one([values[head] for head in heads])


def _metrics_of(heads, head, metrics):
    """The metrics of one head, from the `compile` argument for all."""
    if isinstance(metrics, dict):
        metrics = metrics.get(head)
    elif len(heads) > 1 and isinstance(metrics, (list, tuple)):
        metrics = dict(zip(heads, metrics, strict=False)).get(head)
    return keras.tree.flatten(metrics)
