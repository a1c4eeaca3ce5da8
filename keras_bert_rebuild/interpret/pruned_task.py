"""Prune the attention heads that the loss of a task depends on least, and measure the loss in quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.interpret.head_importance_of_task import HeadImportance, head_importance
from keras_bert_rebuild.interpret.head_pruning import prune_heads
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.training.lora import without_lora


@dataclass(frozen=True)
class PrunedTask:
    """A task before and after its least important heads were pruned."""

    task: Task
    """The pruned task; the original is unchanged."""

    heads: Mapping[int, Sequence[int]]
    """The pruned heads by block."""

    importance: HeadImportance
    """The importances of all heads."""

    before: Mapping[str, float]
    """The scores of the original task by name."""

    after: Mapping[str, float]
    """The scores of the pruned task."""


def prune_task(
    task: Task,
    examples: Sequence[Any],
    share: float,
    *,
    measured_on: Sequence[Any] | None = None,
    batch_size: int = 32,
    progress: Progress = None,
) -> PrunedTask:
    """Prune the least important heads of a task, and score it before and after.

    Args:
        task: as for `head_importance`.
        examples: labelled examples to compute importances on.
        share: fraction of its heads to prune, in [0, 1]; the most important head of every block is kept.
        measured_on: labelled examples to score on; None for `examples`, whose scores are slightly optimistic.
        batch_size: rows per batch.
        progress: called with the number of finished batches of the importances and the total.

    Returns:
        A `PrunedTask`.

    Raises:
        ValueError: as for `head_importance` and `prune_heads`.
    """
    importance = head_importance(task, examples, batch_size=batch_size, progress=progress)
    heads = importance.least(share)
    pruned = type(task).of_model(prune_heads(without_lora(task.model), heads), task.tokenizer, **task.settings())
    pruned.tokenizer_files = task.tokenizer_files
    of = examples if measured_on is None else measured_on
    before, after = (one.scores(of, one.predict_examples(of, batch_size=batch_size)) for one in (task, pruned))
    return PrunedTask(pruned, heads, importance, before, after)
