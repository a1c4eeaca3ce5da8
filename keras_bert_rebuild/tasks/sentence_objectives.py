"""Training objectives for vectors of texts: each defines the targets of examples, and the loss."""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.training.pair_losses import ContrastiveLoss, CoSentLoss, CosineLoss, TripletLoss
from keras_bert_rebuild.training.retrieval_losses import DistillationLoss, InBatchNegativesLoss, MarginLoss


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

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """The loss, on vectors in groups `(groups, texts, width)`, or of single texts; see `ScoreLoss`."""

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
        known = [score for score in scores if is_number(score)]
        if len(known) < len(scores) or min(known) == max(known):
            raise ValueError(f"pairs must have scores that differ to learn cosines; {len(known)} of {len(scores)} have a score.")
        # As with sentence-transformers, scores up to 1 are cosines, and others are divided by the highest of their scale.
        return {"score_range": (0.0, float(max(1, math.ceil(max(map(abs, known))))))}

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

    examples, default_scale, needs_teacher = ("retrieval",), 1.0, True

    def loss(self):
        return MarginLoss(**self.settings)


class Distillation(Objective):
    """Learn a teacher's distribution over the texts of a group."""

    examples, needs_teacher = ("retrieval",), True

    def loss(self):
        return DistillationLoss(**self.settings)


class Triplet(Objective):
    """Bring texts nearer to the farthest text of their label than to the nearest of another label."""

    examples, default_scale = ("classification",), 1.0

    def loss(self):
        return TripletLoss(**self.settings)


class Contrastive(Objective):
    """Find the texts with the same label among those of the batch."""

    examples = ("classification",)

    def loss(self):
        return ContrastiveLoss(**self.settings)


# The classes of objectives by name.
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
