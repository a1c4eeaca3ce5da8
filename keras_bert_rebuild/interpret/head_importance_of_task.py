"""The importance of attention heads: how much the loss of a task depends on each of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_bert_rebuild.interpret.losses_of_examples import LossesOfExamples
from keras_bert_rebuild.interpret.seams import changed, encoder_of
from keras_bert_rebuild.interpret.sites import HEADS
from keras_bert_rebuild.kernels.gradients import value_and_gradient
from keras_bert_rebuild.tasks.task import Progress, Task


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
