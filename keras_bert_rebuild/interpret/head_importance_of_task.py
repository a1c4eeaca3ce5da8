"""How much the loss of a task depends on each attention head, for all heads at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.explain.encoder_walk import ATTENTION, heads_present
from keras_bert_rebuild.interpret.seams import changed, encoder_of
from keras_bert_rebuild.interpret.sites import HEADS
from keras_bert_rebuild.kernels.gradients import value_and_gradient
from keras_bert_rebuild.tasks.group_task import GroupTask
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.vector_task import VectorTask


@dataclass(frozen=True)
class HeadImportance:
    """The importance of every head of a task's model."""

    values: np.ndarray
    """`(blocks, heads)`, float64, blocks in the order in which they run; 0 for a pruned head."""

    standard_errors: np.ndarray
    """Those of the means over examples, `(blocks, heads)`; NaN with one example."""

    examples: int
    """How many examples the means are over: each window of a long text is one, the choices of a question are one."""

    present: tuple[tuple[int, ...], ...]
    """The heads that every block has."""

    blocks: tuple[int, ...]
    """The block whose weights every row has, from 0, as `prune_heads` counts; shared blocks have it several times."""

    per_block: bool
    """Whether every row was divided by its Euclidean length."""

    def order(self) -> list[tuple[int, int]]:
        """All heads as `(block, head)`, the least important first."""
        heads = [(block, head) for block, numbers in enumerate(self.present) for head in numbers]
        return sorted(heads, key=lambda head: self.values[head])

    def least(self, share: float) -> dict[int, list[int]]:
        """The least important heads, for `prune_heads`; the most important head of every block stays.

        Args:
            share: how many of the heads that there are, in [0, 1].

        Raises:
            ValueError: the share is not in [0, 1].
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share must be in [0, 1]; got {share}.")
        totals: dict[tuple[int, int], float] = {}
        for block, head in self.order():  # a head of a shared block is in all its runs
            key = self.blocks[block], head
            totals[key] = totals.get(key, 0.0) + float(self.values[block, head])
        chosen: dict[int, list[int]] = {}
        best = {block: max((of, head) for (at, head), of in totals.items() if at == block)[1] for block in set(self.blocks)}
        candidates = [(block, head) for block, head in sorted(totals, key=totals.__getitem__) if best[block] != head]
        for block, head in candidates[: round(share * len(totals))]:
            chosen.setdefault(block, []).append(head)
        return {block: sorted(chosen[block]) for block in sorted(chosen)}


def head_importance(
    task: Task,
    examples: Iterable[Any],
    *,
    batch_size: int = 32,
    per_block: bool = False,
    progress: Progress = None,
) -> HeadImportance:
    """The importance of every attention head for a task, from one forward and one backward pass over labelled examples.

        importance = mean over examples of | d loss / d m |        at m = 1, where m multiplies what the head gives to the output

    A first-order estimate: of a head that is switched off, m = 0, the loss changes by −d loss / d m and what the gradient does not
    see. The absolute value keeps examples that a head helps and examples that it harms from cancelling. It orders heads that are
    taken away one at a time; heads that do the same work each look unimportant beside the others.

    Args:
        task: a task whose loss is that of one example at a time: classification of texts or tokens, question answering, multiple
            choice, reranking.
        examples: labelled examples, as for `finetune`.
        batch_size: rows of a batch.
        per_block: divide the importances of a block by their Euclidean length, as the paper does.
        progress: called with the number of finished batches and of all batches.

    Returns:
        A `HeadImportance`.

    Raises:
        ValueError: examples without labels, or a task whose loss compares the examples of a batch.

    Reference: Michel et al., 2019, section 4.1 (https://arxiv.org/abs/1905.10650).
    """
    encoder, loss = encoder_of(task.model), _loss_of(task)
    batches = task.batches(task.encode(examples), batch_size)
    present, gradients = heads_present(encoder), []
    group = getattr(batches, "list_size", getattr(batches, "group", 1))  # rows of candidates, of choices, or of one text
    for index in range(len(batches)):
        inputs, targets = batches[index][:2]
        gradients.append(_gradients(task, encoder, present, loss, inputs, targets, group))
        if progress is not None:
            progress(index + 1, len(batches))
    sizes = np.abs(np.concatenate(gradients).astype("float64"))
    values = sizes.mean(0)
    errors = sizes.std(0, ddof=1) / len(sizes) ** 0.5 if len(sizes) > 1 else np.full_like(values, np.nan)
    if per_block:
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        values, errors = (np.divide(array, norms, where=norms > 0, out=np.zeros_like(array)) for array in (values, errors))
    numbers = tuple(number - 1 for number in encoder.blocks)
    return HeadImportance(values, errors, len(sizes), tuple(present), numbers, per_block)


def _gradients(task, encoder, present, loss, inputs, targets, group):
    """d loss / d m of every example of a batch, `(examples, blocks, heads)`; an example is `group` rows."""
    lengths = _lengths(task, encoder, inputs)
    count = len(targets) // group
    shape = (count, len(present), 1 + max(max(heads) for heads in present))

    def total(factors):
        with changed(task, encoder, {(HEADS, run): _multiplied(encoder, run, present, factors, group) for run in range(shape[1])}):
            outputs = task.training_model(inputs, training=False)
        # The loss of a batch may weigh its examples; each has a loss of its own, without its padding.
        return sum(loss(*_example(targets, outputs, lengths, i * group, group)) for i in range(count))

    return ops.convert_to_numpy(value_and_gradient(total, np.ones(shape, "float32"))[1])


def _multiplied(encoder, run, present, factors, group):
    """The change that multiplies what every head of a block gives by a factor of its example."""
    width = encoder.layers[ATTENTION.format(encoder.blocks[run])].head_size
    heads = np.array(present[run], "int32")

    def multiply(values, here):
        of_heads = ops.repeat(ops.take(factors[:, run], heads, axis=-1), width, axis=-1)
        of_rows = ops.repeat(of_heads, group, axis=0) if group > 1 else of_heads
        return values * ops.cast(of_rows, values.dtype)[:, None, :]

    return multiply


def _example(targets, outputs, lengths, first, group):
    """The targets and outputs of one example; of a span without the padding, which has no label that says so."""
    rows = slice(first, first + group)
    if lengths is None:
        return targets[rows], outputs[rows]
    return targets[rows], outputs[rows, : lengths[first]]


def _lengths(task, encoder, inputs):
    """The tokens of every row where the task predicts a token of it, else None."""
    if not task.per_token or task.label_padding is not None:
        return None
    ids = np.asarray(inputs[0] if isinstance(inputs, (list, tuple)) else inputs)
    return (ids != encoder.layers["Embedding-Token"].pad_id).sum(1)


def _loss_of(task: Any) -> keras.losses.Loss:
    """The loss of a task, if it is one of single examples."""
    if not isinstance(task, Task) or isinstance(task, (VectorTask, GroupTask)):
        raise ValueError(
            f"head_importance expected a task with a loss for every example; that of {type(task).__name__} compares the examples "
            "of a batch."
        )
    return task.loss()
