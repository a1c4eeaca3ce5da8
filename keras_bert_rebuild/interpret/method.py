"""The interface of attribution methods, which score the tokens of a text for one output."""

import abc
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from keras_bert_rebuild.interpret.subject import SubjectFunction


@dataclass(frozen=True)
class Scores:
    """The result of a method."""

    tokens: np.ndarray
    """The score of every token, float64 `(rows, length)`; 0 at padding."""

    value: float
    """The output for the texts."""

    value_at_baseline: float | None = None
    """The output with every word replaced by the baseline; None for methods without a baseline."""

    complete: bool = False
    """Whether the scores should sum to the difference of these two outputs."""

    errors: np.ndarray | None = None
    """The standard error of the score of every word, `(words,)`; None for methods without sampling."""


@dataclass(frozen=True)
class Method(abc.ABC):
    """An attribution method; its fields are its settings. Abstract."""

    name: ClassVar[str]
    """The name in settings and on the command line."""

    title: ClassVar[str]
    """The name in texts."""

    reads_baseline: ClassVar[bool] = True
    """Whether a baseline changes its scores."""

    @abc.abstractmethod
    def scores(self, function: SubjectFunction) -> Scores:
        """The scores of the tokens of a subject."""

    def settings(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def spread_over_tokens(function: SubjectFunction, of_words: np.ndarray) -> np.ndarray:
    """The scores of words as scores of tokens, `(rows, length)`, divided equally among the tokens of a word in all rows."""
    counts = np.bincount(function.words[function.words >= 0], minlength=function.word_count)
    shares = np.append(of_words / np.maximum(counts, 1), 0.0)
    return shares[function.words]
