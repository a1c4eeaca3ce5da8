"""A task without the attention heads that its loss depends on least, and what that costs in quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.interpret.head_importance_of_task import HeadImportance, head_importance
from keras_bert_rebuild.interpret.head_pruning import prune_heads
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.training.lora import without_lora


@dataclass(frozen=True)
class PrunedTask:
    """A task before and after its least important heads were taken away."""

    task: Task
    """The task without them; the one that was given is unchanged."""

    heads: Mapping[int, Sequence[int]]
    """What was taken away, by block."""

    importance: HeadImportance
    """The importances that decided it."""

    before: Mapping[str, float]
    """The scores of the whole task by name."""

    after: Mapping[str, float]
    """The scores without these heads."""


def prune_task(
    task: Task,
    examples: Sequence[Any],
    share: float,
    *,
    measured_on: Sequence[Any] | None = None,
    batch_size: int = 32,
    progress: Progress = None,
) -> PrunedTask:
    """Take the least important heads of a task away, and score it before and after.

    Args:
        task: as for `head_importance`.
        examples: labelled examples that decide which heads go.
        share: how many of its heads, in [0, 1]; the most important one of every block stays.
        measured_on: labelled examples to score; None for those that decide, which are a little too kind.
        batch_size: rows of a batch.
        progress: called with the number of finished batches of the importances and of all of them.

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
