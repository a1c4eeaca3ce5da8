"""Training objectives for vectors of sentences: each is an object that defines the targets of pairs, and the loss."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert_rebuild.training.pair_losses import CosineLoss
from keras_bert_rebuild.training.retrieval_losses import InBatchNegativesLoss


class Objective(abc.ABC):
    """The training objective of a `SentenceEmbedder`. Abstract.

    `SentenceEmbedder`, `FinetuneSettings` and `load_task` accept every name in `OBJECTIVES`, also one that is added.

    Args:
        score_range: the scores of least and greatest similarity.
        scale: factor of the cosines.
    """

    all_windows = True
    """Whether every window of a long pair is a pair of its own; else only the first windows are used."""

    def __init__(self, score_range: tuple[float, float] = (0.0, 1.0), scale: float = 20.0) -> None:
        self.score_range, self.scale = score_range, scale

    @classmethod
    def settings_for(cls, scores: Sequence[float | None]) -> Mapping[str, Any]:
        """Further settings of the embedder for pairs with these scores; a ValueError if nothing can be learned from them."""
        return {}

    @abc.abstractmethod
    def target(self, score: float | None, where: str) -> float | None:
        """The target of a pair with a score; None if it is unknown, a ValueError for an invalid score."""

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """The loss on vectors in which the two of a pair are consecutive."""


class Cosine(Objective):
    """Cosines that match the scores of pairs."""

    @classmethod
    def settings_for(cls, scores):
        known = [score for score in scores if score is not None]
        if len(known) < len(scores) or min(known) == max(known):
            raise ValueError(f"pairs must have different scores to learn cosines; {len(known)} of {len(scores)} have one.")
        return {"score_range": (min(known), max(known))}

    def target(self, score, where):
        low, high = self.score_range
        if score is None:
            return None
        if isinstance(score, str) or not low <= score <= high:
            raise ValueError(f"a score must be a number from {low:g} to {high:g}, the score_range; {where} has {score!r}.")
        return (score - low) / (high - low)

    def loss(self):
        return CosineLoss()


class InBatchNegatives(Objective):
    """Finding the second text of every pair among those of the batch, which should be distinct."""

    all_windows = False  # negatives must not meet another window of their own pair

    def target(self, score, where):
        return 0.0  # ignored by the loss

    def loss(self):
        return InBatchNegativesLoss(self.scale)


# Name of an objective, and its class.
OBJECTIVES: dict[str, type[Objective]] = {"cosine": Cosine, "in_batch_negatives": InBatchNegatives}


def objective_for(scores: Sequence[float | None]) -> str:
    """The default objective for pairs with these scores: cosines if all pairs have one."""
    return "in_batch_negatives" if None in scores else "cosine"
