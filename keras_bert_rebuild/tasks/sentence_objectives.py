"""What vectors of sentences can be trained for: each objective is an object that says what pairs are to answer, and the loss."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import keras

from keras_bert_rebuild.training.task_losses import CosineLoss, InBatchNegativesLoss


class Objective(Protocol):
    """What a `SentenceEmbedder` is trained for.

    It is made by `of`, from the settings of the embedder; one under a new name in `OBJECTIVES` is known to `SentenceEmbedder`,
    `FinetuneSettings` and `load_task`.
    """

    all_windows: bool
    """Whether every window of a long pair is a pair of its own; else the first windows stand for it."""

    @classmethod
    def of(cls, score_range: tuple[float, float], scale: float) -> Self:
        """The objective from the scores that mean the least and the most alike, and a factor for cosines."""

    @classmethod
    def settings_for(cls, scores: Sequence[float | None]) -> Mapping[str, Any]:
        """What the embedder is told besides for pairs with these scores; a ValueError where nothing can be learned from them."""

    def target(self, score: float | None, where: str) -> float | None:
        """What a pair with a score should answer; None where that cannot be told, a ValueError for a score that cannot be."""

    def loss(self) -> keras.losses.Loss:
        """The loss on vectors whose pairs stand one behind the other."""


class Cosine:
    """To have cosines that match the scores of pairs."""

    all_windows = True

    def __init__(self, score_range):
        self.score_range = score_range

    @classmethod
    def of(cls, score_range, scale):
        return cls(score_range)

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
        """The squared error of cosines."""
        return CosineLoss()


class InBatchNegatives:
    """To find the second text of every pair among those of the batch, of which no two should then be the same."""

    all_windows = False  # negatives must not meet another window of their own pair

    def __init__(self, scale):
        self.scale = scale

    @classmethod
    def of(cls, score_range, scale):
        return cls(scale)

    @classmethod
    def settings_for(cls, scores):
        return {}

    def target(self, score, where):
        return 0.0  # not looked at

    def loss(self):
        """Cross entropy over the batch."""
        return InBatchNegativesLoss(self.scale)


# Name of an objective, its class.
OBJECTIVES: dict[str, type[Objective]] = {"cosine": Cosine, "in_batch_negatives": InBatchNegatives}


def objective_for(scores: Sequence[float | None]) -> str:
    """The usual objective for pairs with these scores: cosines where all pairs have one."""
    return "in_batch_negatives" if None in scores else "cosine"
