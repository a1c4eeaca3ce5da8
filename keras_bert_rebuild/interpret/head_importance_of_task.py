"""The importance of attention heads: how much the loss of a task depends on each of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_bert_rebuild.interpret.sites import HEADS, changed, encoder_of
from keras_bert_rebuild.kernels.gradients import value_and_gradient
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.packed_vectors import TextVectors, can_be_packed
from keras_bert_rebuild.tasks.embedder import GroupTask
from keras_bert_rebuild.tasks.task import Progress, Task
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


@dataclass(frozen=True)
class HeadImportance:
    """The importance of every head of a task's model."""

    values: np.ndarray
    """`(blocks, heads)`, float64, blocks in execution order; 0 for a pruned head."""

    standard_errors: np.ndarray
    """Standard errors of the means over examples, `(blocks, heads)`; NaN for a single example."""

    examples: int
    """The number of examples: each window of a long text is one; all choices of a question, both texts of a pair, or a query with
    its texts are one."""

    present: tuple[tuple[int, ...], ...]
    """The heads of every block."""

    blocks: tuple[int, ...]
    """The block, from 0 as in `prune_heads`, whose weights each row has; blocks that run several times occur several times."""

    per_block: bool
    """Whether every row was divided by its L2 norm."""

    def order(self) -> list[tuple[int, int]]:
        """All heads as `(block, head)`, least important first."""
        heads = [(block, head) for block, numbers in enumerate(self.present) for head in numbers]
        return sorted(heads, key=lambda head: self.values[head])

    def least(self, share: float) -> dict[int, list[int]]:
        """The least important heads, for `prune_heads`; the most important head of every block is kept.

        Args:
            share: fraction of all heads, in [0, 1].

        Raises:
            ValueError: the share is not in [0, 1].
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share must be in [0, 1]; got {share}.")
        totals: dict[tuple[int, int], float] = {}
        for block, head in self.order():  # a head of a shared block takes part in all its runs
            key = self.blocks[block], head
            totals[key] = totals.get(key, 0.0) + float(self.values[block, head])
        heads_of: dict[int, list[int]] = {}
        best = {block: max((of, head) for (at, head), of in totals.items() if at == block)[1] for block in set(self.blocks)}
        candidates = [(block, head) for block, head in sorted(totals, key=totals.__getitem__) if best[block] != head]
        for block, head in candidates[: round(share * len(totals))]:
            heads_of.setdefault(block, []).append(head)
        return {block: sorted(heads_of[block]) for block in sorted(heads_of)}


def head_importance(
    task: Task,
    examples: Iterable[Any],
    *,
    batch_size: int = 32,
    per_block: bool = False,
    progress: Progress = None,
) -> HeadImportance:
    """The importance of every attention head for a task, from one forward and one backward pass over labelled examples.

        importance = mean over examples of | d loss / d m |        at m = 1, where m multiplies the output of the head

    This is a first-order estimate of the change in loss, −d loss / d m, if the head is switched off (m = 0). Due to the absolute
    value, examples that a head helps and examples that it harms do not cancel. The estimate is for removing one head at a time: of
    several redundant heads, each looks unimportant.

    The loss is the training loss of the task. If it compares the examples of a batch, as most losses of embedders do, it is the
    loss of the batch times the number of examples, and m multiplies the head only in the texts of one example: a pair, or a query
    with its texts. Such importances depend on `batch_size`, as the loss does.

    Args:
        task: any task that can be fine-tuned.
        examples: labelled examples, as for `finetune`.
        batch_size: rows per batch; for embedders pairs, groups or texts with labels.
        per_block: divide the importances of a block by their L2 norm, as in the paper.
        progress: called with the number of finished batches and the total.

    Returns:
        A `HeadImportance`.

    Raises:
        ValueError: not a task, or examples without labels.

    Reference: Michel et al., 2019, section 4.1 (https://arxiv.org/abs/1905.10650).
    """
    encoder = encoder_of(task)
    losses = LossesOfExamples(task, encoder, examples, batch_size)
    present, gradients = encoder.heads, []
    for done, batch in enumerate(losses, 1):
        gradients.append(_gradients(task, encoder, present, batch))
        if progress is not None:
            progress(done, len(losses))
    sizes = np.abs(np.concatenate(gradients).astype("float64"))
    values = sizes.mean(0)
    errors = sizes.std(0, ddof=1) / len(sizes) ** 0.5 if len(sizes) > 1 else np.full_like(values, np.nan)
    if per_block:
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        values, errors = (np.divide(array, norms, where=norms > 0, out=np.zeros_like(array)) for array in (values, errors))
    numbers = tuple(number - 1 for number in encoder.numbers)
    return HeadImportance(values, errors, len(sizes), tuple(present), numbers, per_block)


def _gradients(task, encoder, present, batch):
    """The gradient of the sum of losses by the factors of every example of a batch, `(examples, blocks, heads)`."""
    shape = (batch.examples, len(present), 1 + max(max(heads) for heads in present))

    def total(factors):
        changes = {(HEADS, run): _multiplied(encoder, run, present, factors, batch.rows) for run in range(shape[1])}
        with changed(task, encoder, changes):
            return batch.total()

    return ops.convert_to_numpy(value_and_gradient(total, np.ones(shape, "float32"))[1])


def _multiplied(encoder, run, present, factors, rows):
    """The change that multiplies what every head of a block gives by the factor of its example, which has `rows` rows."""
    width = encoder.blocks[run].attention.head_size
    heads = np.array(present[run], "int32")

    def multiply(values, here):
        of_heads = ops.repeat(ops.take(factors[:, run], heads, axis=-1), width, axis=-1)
        of_rows = ops.repeat(of_heads, rows, axis=0) if rows > 1 else of_heads
        return values * ops.cast(of_rows, values.dtype)[:, None, :]

    return multiply
