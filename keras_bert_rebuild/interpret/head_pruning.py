"""Pruning of attention heads: of a model, and of a task those that its loss depends on least."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.checkpoints.transfer import to_numpy
from keras_bert_rebuild.interpret.head_importance_of_task import HeadImportance, head_importance
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.rebuilt_model import check_can_be_rebuilt, rebuilt
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.training.lora import without_lora


def prune_heads(model: keras.Model, heads: Mapping[int, Sequence[int]]) -> BertModel:
    """A copy of a model without some attention heads: it has the same outputs as with these heads switched off, but is smaller and
    faster.

    The kernels of queries, keys and values lose the columns of a head, and that of the output its rows. `config.pruned_heads` lists
    the pruned heads; it is saved in every format except Google's. In Hugging Face's format it has the key and the layout of
    transformers 2 to 4, which read such folders; transformers 5 no longer supports pruning and rejects the shapes.

    Args:
        model: a model with a config, of a family with BERT's attention (BERT, RoBERTa, ELECTRA, DistilBERT, ALBERT); not changed.
        heads: indices of heads by index of their block, all from 0 and as in the unpruned model. Heads that are already pruned may
            be included. A shared block counts as one.

    Returns:
        A new model, not compiled.

    Raises:
        ValueError: a block or head does not exist, a block would have no head, the family has another kind of attention, or the
            model has no config or is quantised.

    Example:

    >>> from keras_bert_rebuild import BertConfig, build_model
    >>> from keras_bert_rebuild.interpret import prune_heads
    >>> sizes = {"vocab_size": 10, "hidden_size": 8, "num_attention_heads": 4, "intermediate_size": 8}
    >>> model = build_model(BertConfig(**sizes, num_hidden_layers=2))
    >>> pruned = prune_heads(model, {1: [0, 3]})
    >>> model.count_params() - pruned.count_params(), pruned.config.pruned_heads
    (140, ((1, (0, 3)),))

    Reference: Michel et al., 2019, section 4 (https://arxiv.org/abs/1905.10650).
    """
    check_can_be_rebuilt(model, "as heads are cut out of its weights; prune it first")
    before = dict(model.config.pruned_heads)
    after = {block: {*before.get(block, ()), *heads.get(block, ())} for block in {*before, *heads}}
    config = model.config.replace(pruned_heads=after)
    axes = _axes_of_heads(config, heads_of(model))
    present = {block.number: block.attention.present for block in model.config.encoder().blocks}
    kept = {
        block.number: np.flatnonzero(np.isin(present[block.number], block.attention.present)) for block in config.encoder().distinct
    }

    def value_of(path, variable):
        array = to_numpy(variable)
        if path not in axes:
            return array.copy()
        axis, number = axes[path]
        by_heads = np.moveaxis(array, axis, 0).reshape(len(present[number]), -1, *np.delete(array.shape, axis))
        remaining = by_heads[kept[number]]
        return np.moveaxis(remaining.reshape(-1, *remaining.shape[2:]), 0, axis).copy()

    pruned = rebuilt(model, config, value_of)
    if hasattr(model, "load_report"):
        pruned.load_report = model.load_report  # includes the files of its tokenizer, which are saved with it
    return pruned


def _axes_of_heads(config, heads):
    """By path of a weight, the axis along which heads are concatenated, and the index of its block."""
    weights = weights_of(config.encoder(), heads)
    return {
        path: (weight.head_axis, int(path.split("-")[1])) for path, (weight, _) in weights.items() if weight.head_axis is not None
    }


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
    pruned = type(task).from_model(prune_heads(without_lora(task.model), heads), task.tokenizer, **task.settings())
    pruned.tokenizer_files = task.tokenizer_files
    of = examples if measured_on is None else measured_on
    before, after = (one.scores(of, one.predict_examples(of, batch_size=batch_size)) for one in (task, pruned))
    return PrunedTask(pruned, heads, importance, before, after)
