"""The training objectives for vectors of texts and for rerankers: each defines the targets of examples, and the loss."""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.data.labelled.labelled_examples import RankedText, TextGroup
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.tasks.text_rows import example_name
from keras_bert_rebuild.training.pair_losses import ContrastiveLoss, CoSentLoss, CosineLoss, TripletLoss
from keras_bert_rebuild.training.reranking_losses import (
    LambdaLoss,
    ListwiseLoss,
    MarginErrorLoss,
    PairwiseLoss,
    PointwiseLoss,
    SquaredErrorLoss,
)
from keras_bert_rebuild.training.retrieval_losses import DistillationLoss, InBatchNegativesLoss, MarginLoss
from keras_bert_rebuild.training.score_loss import ScoreLoss

# Number of negatives to sample if none are given: in an evaluation, and in a training without the setting `negatives`.
EVALUATION_NEGATIVES, NEGATIVES, MOST_NEGATIVES = 9, 4, 7


@dataclass(frozen=True, kw_only=True)
class VectorTraining:
    """Training settings for vectors besides the objective; see the fields of `FinetuneSettings`. None of them affects inference.

    `symmetric` is true by default for pairs, and false for groups.
    """

    learned_temperature: bool = False
    symmetric: bool | None = None
    matryoshka_dims: Sequence[int] | None = None
    matryoshka_weights: Sequence[float] | None = None
    chunk: int | None = None
    guide: Any = None
    false_negative_margin: float | None = None


class Objective(abc.ABC):
    """The training objective of a `SentenceEmbedder`. Abstract.

    `SentenceEmbedder`, `FinetuneSettings` and `load_task` accept every name in `OBJECTIVES`, including user-defined ones.

    Args:
        score_range: the scores of minimum and maximum similarity.
        scale: factor of the cosines; None for the default of the class.
        training: a `VectorTraining`; None for the defaults.
        similarity: a name in `SIMILARITIES`.
    """

    examples: tuple[str, ...] = ("similarity",)
    """The kinds of examples that it supports, as for `read_examples`."""

    default_scale = 20.0
    """The default factor of the cosines."""

    all_windows = True
    """Whether every window of a long pair is a separate pair; otherwise only the first windows are used."""

    needs_teacher = False
    """Whether groups of texts must have the scores of a teacher, and at least one negative."""

    loss_class: Callable[..., ScoreLoss]
    """The class of the loss, unless `loss` is overridden."""

    def __init__(
        self,
        score_range: tuple[float, float] = (0.0, 1.0),
        scale: float | None = None,
        training: VectorTraining | None = None,
        similarity: str = "cosine",
    ) -> None:
        self.score_range, self.scale = score_range, self.default_scale if scale is None else scale
        self.training, self.similarity = VectorTraining() if training is None else training, similarity

    @classmethod
    def settings_for(cls, scores: Sequence[float | None]) -> Mapping[str, Any]:
        """Further settings of the embedder for pairs with these scores; a ValueError if the scores do not suit the objective."""
        return {}

    def target(self, score: float | None, where: str) -> float | None:
        """The target of a pair with a score; None if it is unknown, a ValueError for an invalid score."""
        return 0.0  # ignored by the loss

    def loss(self) -> keras.losses.Loss:
        """The loss, on vectors in groups `(groups, texts, width)`, or of single texts; see `ScoreLoss`."""
        return self.loss_class(**self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that all losses share."""
        dims, weights = self.training.matryoshka_dims, self.training.matryoshka_weights
        return {"scale": self.scale, "similarity": self.similarity, "dims": dims, "dim_weights": weights}


class Cosine(Objective):
    """Fit cosines to the scores of pairs."""

    default_scale = 1.0

    @classmethod
    def settings_for(cls, scores):
        numbers = [score for score in scores if is_number(score)]
        if len(numbers) < len(scores) or min(numbers) == max(numbers):
            raise ValueError(f"pairs must have scores that differ to learn cosines; {len(numbers)} of {len(scores)} have a score.")
        # As with sentence-transformers, scores up to 1 are cosines, and others are divided by the highest of their scale.
        return {"score_range": (0.0, float(max(1, math.ceil(max(map(abs, numbers))))))}

    def target(self, score, where):
        low, high = self.score_range
        if score is None:
            return None
        if not is_number(score):
            raise ValueError(f"a score must be a number; {where} has {score!r}.")
        return (score - low) / (high - low)

    def loss(self):
        return CosineLoss(**{**self.settings, "scale": 1.0})  # cosines are compared with scores without a factor


class CoSent(Cosine):
    """Order cosines as the scores of pairs."""

    default_scale = 20.0
    all_windows = False  # the pairs of a batch are compared with each other

    def loss(self):
        return CoSentLoss(**self.settings)


class InBatchNegatives(Objective):
    """Find the second text of every pair, or the positive of every query, among the texts of the batch."""

    examples = ("similarity", "retrieval")
    all_windows = False  # another window of the same pair must not be a negative

    def loss(self):
        guided = self.training.guide is not None
        margin = self.training.false_negative_margin
        return InBatchNegativesLoss(
            symmetric=bool(self.training.symmetric), same_side=guided, guided=guided, margin=margin, **self.settings
        )


class MarginMse(Objective):
    """Learn a teacher's margins between positive and negatives."""

    examples, default_scale, needs_teacher, loss_class = ("retrieval",), 1.0, True, MarginLoss


class Distillation(Objective):
    """Learn a teacher's distribution over the texts of a group."""

    examples, needs_teacher, loss_class = ("retrieval",), True, DistillationLoss


class Triplet(Objective):
    """Bring texts nearer to the farthest text of their label than to the nearest of another label."""

    examples, default_scale, loss_class = ("classification",), 1.0, TripletLoss


class Contrastive(Objective):
    """Find the texts with the same label among those of the batch."""

    examples, loss_class = ("classification",), ContrastiveLoss


# The classes of objectives for vectors by name.
OBJECTIVES: dict[str, type[Objective]] = {
    "cosine": Cosine,
    "in_batch_negatives": InBatchNegatives,
    "cosent": CoSent,
    "margin_mse": MarginMse,
    "distillation": Distillation,
    "triplet": Triplet,
    "contrastive": Contrastive,
}


def objectives_for(examples: str) -> list[str]:
    """The names of the objectives for a kind of examples."""
    return [name for name, objective in OBJECTIVES.items() if examples in objective.examples]


def objective_for(scores: Sequence[float | None]) -> str:
    """The default objective for pairs with these scores: "cosine" if all pairs have one."""
    return "in_batch_negatives" if None in scores else "cosine"


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


# The objectives of rerankers by name.
RERANKING_OBJECTIVES: dict[str, RerankingObjective] = {
    "binary": RerankingObjective(PointwiseLoss, False, weighted=True, label=lambda label, _: float(label > 0)),
    "graded": RerankingObjective(PointwiseLoss, False, weighted=True, label=lambda label, of: (label - of[0]) / (of[1] - of[0])),
    "pairwise": RerankingObjective(PairwiseLoss),
    "listwise": RerankingObjective(ListwiseLoss),
    "lambda": RerankingObjective(LambdaLoss),
    "margin_mse": RerankingObjective(MarginErrorLoss, of_scores=True),
    "mse": RerankingObjective(SquaredErrorLoss, False, of_scores=True),
    "list_net": RerankingObjective(lambda list_size: ListwiseLoss(from_scores=True, list_size=list_size), of_scores=True),
}


def reranking_settings(examples: Sequence[Any], objective: str | None, negatives: int | None) -> dict[str, Any]:
    """The settings of a `Reranker` that suit examples.

    Args:
        examples: all `TextGroup`, or all `RankedText`.
        objective, negatives: the user's settings, or None.

    Raises:
        ValueError: all texts have the same label.
    """
    if isinstance(examples[0], TextGroup):
        has_scores = all(example.scores is not None for example in examples)
        most = max(len(example.negatives) for example in examples)
        usual = min(most, MOST_NEGATIVES) or NEGATIVES
        return {"objective": objective or ("margin_mse" if has_scores else "binary"), "negatives": negatives or usual}
    labels = {example.label for example in examples}
    if len(labels - {None}) < 2:
        raise ValueError(
            f"texts must have different labels to learn their order; all {len(examples)} have {next(iter(labels))!r}. Without "
            "labels, name the column of the texts positive, and negatives are sampled."
        )
    numbers = [label for label in labels if label is not None]
    sizes: dict[str, int] = {}
    for example in examples:
        sizes[example.query] = sizes.get(example.query, 0) + 1
    usual = max(1, min(max(sizes.values()) - 1, MOST_NEGATIVES))
    settings = {"objective": objective or ("binary" if labels <= {0, 1} else "graded"), "negatives": negatives or usual}
    return {**settings, "score_range": (min(numbers), max(numbers))}


def check_labels(examples: Sequence[Any], of_scores: bool) -> None:
    """Refuse examples of different kinds, and labels or scores that are not numbers.

    Raises:
        ValueError: the error names the example.
    """
    wanted = type(examples[0])
    for i, example in enumerate(examples):
        if not isinstance(example, (TextGroup, RankedText)) or type(example) is not wanted:
            raise ValueError(
                f"examples must all be TextGroup, a positive with negatives, or all RankedText, a text with its label; "
                f"{example_name(example, i)} is a {type(example).__name__}."
            )
        if isinstance(example, RankedText) and example.label is not None and not is_number(example.label):
            raise ValueError(f"the label of a text must be a number; {example_name(example, i)} has {example.label!r:.80}.")
        if isinstance(example, TextGroup) and of_scores and example.scores is None:
            raise ValueError(f"the objective learns the scores of a teacher; {example_name(example, i)} has none.")
