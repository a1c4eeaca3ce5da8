"""The training objectives of a reranker: each defines the labels of texts and the loss on them and the scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.data.labelled.labelled_examples import RankedText, TextGroup
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.training.reranking_losses import (
    LambdaLoss,
    ListwiseLoss,
    MarginErrorLoss,
    PairwiseLoss,
    PointwiseLoss,
    SquaredErrorLoss,
)


@dataclass(frozen=True)
class RerankingObjective:
    """The training objective of a `Reranker`."""

    loss: Callable[..., keras.losses.Loss]
    """A function that creates the loss from `list_size`, and from `positive_weight` if it is `weighted`."""

    of_lists: bool = True
    """Whether it compares the texts of a query; otherwise it is pointwise."""

    of_scores: bool = False
    """Whether it learns scores, such as a teacher's; otherwise labels: 1 for positives and 0 for negatives, or grades."""

    weighted: bool = False
    """Whether relevant texts may have a weight."""

    label: Callable[[float, tuple[float, float]], float] = lambda label, score_range: label
    """A function from a label and the range of all labels to the target of the loss."""


# The objectives by name.
OBJECTIVES: dict[str, RerankingObjective] = {
    "binary": RerankingObjective(PointwiseLoss, False, weighted=True, label=lambda label, _: float(label > 0)),
    "graded": RerankingObjective(PointwiseLoss, False, weighted=True, label=lambda label, of: (label - of[0]) / (of[1] - of[0])),
    "pairwise": RerankingObjective(PairwiseLoss),
    "listwise": RerankingObjective(ListwiseLoss),
    "lambda": RerankingObjective(LambdaLoss),
    "margin_mse": RerankingObjective(MarginErrorLoss, of_scores=True),
    "mse": RerankingObjective(SquaredErrorLoss, False, of_scores=True),
    "list_net": RerankingObjective(lambda list_size: ListwiseLoss(from_scores=True, list_size=list_size), of_scores=True),
}

# Number of negatives to sample if none are given: in an evaluation, and in a training without the setting `negatives`.
EVALUATION_NEGATIVES, NEGATIVES, MOST_NEGATIVES = 9, 4, 7


def settings_for(examples: Sequence[Any], objective: str | None, negatives: int | None) -> dict[str, Any]:
    """The settings of a `Reranker` that suit examples.

    Args:
        examples: all `TextGroup`, or all `RankedText`.
        objective, negatives: the user's settings, or None.

    Raises:
        ValueError: all texts have the same label.
    """
    if isinstance(examples[0], TextGroup):
        has_scores = all(example.scores is not None for example in examples)
        given = max(len(example.negatives) for example in examples)
        usual = min(given, MOST_NEGATIVES) or NEGATIVES
        return {"objective": objective or ("margin_mse" if has_scores else "binary"), "negatives": negatives or usual}
    labels = {example.label for example in examples}
    if len(labels - {None}) < 2:
        raise ValueError(
            f"texts must have different labels to learn their order; all {len(examples)} have {next(iter(labels))!r}. Without "
            "labels, name the column of the texts positive, and negatives are sampled."
        )
    known = [label for label in labels if label is not None]
    sizes: dict[str, int] = {}
    for example in examples:
        sizes[example.query] = sizes.get(example.query, 0) + 1
    usual = max(1, min(max(sizes.values()) - 1, MOST_NEGATIVES))
    found = {"objective": objective or ("binary" if labels <= {0, 1} else "graded"), "negatives": negatives or usual}
    return {**found, "score_range": (min(known), max(known))}


def check_labels(examples: Sequence[Any], of_scores: bool, place: Callable[[Any, int], str]) -> None:
    """Refuse examples of different kinds, and labels or scores that are not numbers.

    Raises:
        ValueError: the error names the example.
    """
    wanted = type(examples[0])
    for i, example in enumerate(examples):
        if not isinstance(example, (TextGroup, RankedText)) or type(example) is not wanted:
            raise ValueError(
                f"examples must all be TextGroup, a positive with negatives, or all RankedText, a text with its label; "
                f"{place(example, i)} is a {type(example).__name__}."
            )
        if isinstance(example, RankedText) and example.label is not None and not is_number(example.label):
            raise ValueError(f"the label of a text must be a number; {place(example, i)} has {example.label!r:.80}.")
        if isinstance(example, TextGroup) and of_scores and example.scores is None:
            raise ValueError(f"the objective learns the scores of a teacher; {place(example, i)} has none.")
