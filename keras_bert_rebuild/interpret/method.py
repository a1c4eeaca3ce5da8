"""What a method of attribution is: an object that scores the tokens of a text for one number."""

import abc
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from keras_bert_rebuild.interpret.subject import SubjectFunction


@dataclass(frozen=True)
class Scores:
    """What a method found."""

    tokens: np.ndarray
    """The score of every token, float64 `(rows, length)`; 0 at padding."""

    value: float
    """The number for the texts."""

    value_at_baseline: float | None = None
    """The number where every word is replaced by the baseline; None for a method without one."""

    complete: bool = False
    """Whether the scores are meant to sum to the difference of the two."""

    errors: np.ndarray | None = None
    """The standard error of the score of every word, `(words,)`; None for a method that draws nothing."""


@dataclass(frozen=True)
class Method(abc.ABC):
    """A method of attribution; its fields are its settings. Abstract."""

    name: ClassVar[str]
    """In settings and on the command line."""

    title: ClassVar[str]
    """In words."""

    reads_baseline: ClassVar[bool] = True
    """Whether a baseline changes its scores."""

    @abc.abstractmethod
    def scores(self, function: SubjectFunction) -> Scores:
        """The scores of the tokens of a subject."""

    def settings(self) -> dict[str, Any]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def spread_over_tokens(function: SubjectFunction, of_words: np.ndarray) -> np.ndarray:
    """The scores of words as scores of tokens, `(rows, length)`: every token of a word, in every row, has an equal share."""
    counts = np.bincount(function.words[function.words >= 0], minlength=function.word_count)
    shares = np.append(of_words / np.maximum(counts, 1), 0.0)
    return shares[function.words]
