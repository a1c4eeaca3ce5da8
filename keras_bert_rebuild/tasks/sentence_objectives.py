"""What vectors of sentences can be trained for: each objective is an object that says what pairs are to answer, and the loss."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert_rebuild.training.task_losses import CosineLoss, InBatchNegativesLoss


class Objective(abc.ABC):
    """What a `SentenceEmbedder` is trained for. Abstract.

    One under a new name in `OBJECTIVES` is known to `SentenceEmbedder`, `FinetuneSettings` and `load_task`.

    Args:
        score_range: the scores that mean the least and the most alike.
        scale: a factor for cosines.
    """

    all_windows = True
    """Whether every window of a long pair is a pair of its own; else the first windows stand for it."""

    def __init__(self, score_range: tuple[float, float] = (0.0, 1.0), scale: float = 20.0) -> None:
        self.score_range, self.scale = score_range, scale

    @classmethod
    def settings_for(cls, scores: Sequence[float | None]) -> Mapping[str, Any]:
        """What the embedder is told besides for pairs with these scores; a ValueError where nothing can be learned from them."""
        return {}

    @abc.abstractmethod
    def target(self, score: float | None, where: str) -> float | None:
        """What a pair with a score should answer; None where that cannot be told, a ValueError for a score that cannot be."""

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """The loss on vectors whose pairs stand one behind the other."""


class Cosine(Objective):
    """To have cosines that match the scores of pairs."""

    @classmethod
    def settings_for(cls, scores):
        known = [score for score in scores if score is not None]
        if len(known) < len(scores) or min(known) == max(known):
            raise ValueError(f"pairs must have scores that differ, to learn cosines; {len(known)} of {len(scores)} have one.")
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
    """To find the second text of every pair among those of the batch, of which no two should then be the same."""

    all_windows = False  # negatives must not meet another window of their own pair

    def target(self, score, where):
        return 0.0  # not looked at

    def loss(self):
        return InBatchNegativesLoss(self.scale)


# Name of an objective, its class.
OBJECTIVES: dict[str, type[Objective]] = {"cosine": Cosine, "in_batch_negatives": InBatchNegatives}


def objective_for(scores: Sequence[float | None]) -> str:
    """The usual objective for pairs with these scores: cosines where all pairs have one."""
    return "in_batch_negatives" if None in scores else "cosine"
