"""The loss of a task on batches of labelled examples, as a function of a model inside of which something is changed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.packed_vectors import TextVectors, can_be_packed
from keras_bert_rebuild.tasks.embedder import GroupTask
from keras_bert_rebuild.tasks.task import Task
from keras_bert_rebuild.tasks.vector_task import VectorTask


@dataclass(frozen=True)
class LossOfBatch:
    """The loss of a batch of examples."""

    examples: int
    """How many there are."""

    rows: int
    """Rows of the model's batch that belong to one example: its texts, its choices; they are consecutive."""

    total: Callable[[], Any]
    """Run the model and return the sum of the losses of the examples, a scalar tensor."""


class LossesOfExamples:
    """The batches of some examples, in the order of the task; a sequence of `LossOfBatch`.

    Where the loss compares the texts of a batch (negatives, the order of pairs, labels), the sum is the number of examples times
    the loss of the batch.

    Args:
        task: the task.
        encoder: its encoder.
        examples: labelled examples, as for `finetune`.
        batch_size: rows of a batch; for vectors pairs, groups or texts with labels.

    Raises:
        ValueError: not a task, or examples without labels.
    """

    def __init__(self, task: Task, encoder: EncoderView, examples: Iterable[Any], batch_size: int) -> None:
        if not isinstance(task, Task):
            raise ValueError(f"expected a task, as load_task returns it; got {type(task).__name__}.")
        self.task, self.encoder = task, encoder
        self.batches = task.batches(task.encode(examples), batch_size)
        self.loss = task.loss()
        # Rows of candidates, of choices, of the texts of a pair or group, or of one text.
        self.group = getattr(self.batches, "list_size", getattr(self.batches, "group", 1))
        self.vectors = None
        if isinstance(task, VectorTask) and task.training_model is not task.model:
            parts: Any = task  # the encoder, poolings and modules of every embedder
            self.vectors = TextVectors(parts.encoder, parts.poolings, parts.modules, packed=can_be_packed(parts.encoder))

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[LossOfBatch]:
        for index in range(len(self)):
            inputs, targets = self.batches[index][:2]
            if self.vectors is not None:
                yield self._of_packed(inputs, targets)
            elif isinstance(self.task, (VectorTask, GroupTask)):
                yield self._of_texts(inputs, targets)
            else:
                yield self._of_single(inputs, targets)

    def _of_single(self, inputs, targets):
        """Of a loss that has a value for every example, which may be weighed differently in a batch."""
        lengths, group = self._lengths(inputs), self.group
        count = len(targets) // group

        def total():
            outputs = self.task.training_model(inputs, training=False)
            return sum(self.loss(*_example(targets, outputs, lengths, i * group, group)) for i in range(count))

        return LossOfBatch(count, group, total)

    def _of_texts(self, inputs, targets):
        count = len(targets) // self.group
        return LossOfBatch(count, self.group, lambda: self._whole(targets, self.task.training_model(inputs, training=False), count))

    def _of_packed(self, inputs, targets):
        # A row may have texts of several groups, and a text be in several: here every text of every group is a row of its own.
        arrays = one_text_a_row(inputs, self.task.tokenizer.pad_id)
        count, texts = arrays[-1].shape
        return LossOfBatch(count, texts, lambda: self._whole(targets, self.vectors(arrays, training=False), count))

    def _whole(self, targets, outputs, count):
        return self.loss(targets, outputs) * count

    def _lengths(self, inputs):
        """The tokens of every row where the task predicts a token of it, else None."""
        if not self.task.per_token or self.task.label_padding is not None:
            return None
        ids = np.asarray(inputs[0] if isinstance(inputs, (list, tuple)) else inputs)
        return (ids != self.encoder.layers["Embedding-Token"].pad_id).sum(1)


def _example(targets, outputs, lengths, first, group):
    """The targets and outputs of one example; of a span without the padding, which has no label that says so."""
    rows = slice(first, first + group)
    if lengths is None:
        return targets[rows], outputs[rows]
    return targets[rows], outputs[rows, : lengths[first]]


def one_text_a_row(inputs: Any, pad_id: int) -> list[np.ndarray]:
    """The inputs of `TextVectors` with every text of every group in a row of its own, in the order of the groups.

    Args:
        inputs: those of a batch of `PackedGroups`.
        pad_id: the id of padding.
    """
    ids, *segments, marks, begins, order = [np.asarray(values) for values in inputs]
    there = order.ravel() >= 0
    rows, slots = np.divmod(np.maximum(order.ravel(), 0), begins.shape[1])
    inside = (marks[rows] == begins[rows, slots][:, None]) & (marks[rows] > 0) & there[:, None]
    length = max(int(inside.sum(1).max(initial=0)), 1)
    columns = np.argsort(~inside, axis=1, kind="stable")[:, :length]  # those of the text first
    pick = lambda values: np.take_along_axis(values[rows], columns, 1)  # noqa: E731
    real = np.take_along_axis(inside, columns, 1)
    kept = [np.where(real, pick(ids), pad_id), *(np.where(real, pick(values), 0) for values in segments)]
    numbers = np.where(there, np.arange(len(rows)), -1).reshape(order.shape)
    return [values.astype("int32") for values in (*kept, real, there[:, None], numbers)]
