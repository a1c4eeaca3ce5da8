"""Methods that remove words: leave-one-out, and Shapley values."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keras_bert_rebuild.interpret.method import Method, Scores, spread_over_tokens
from keras_bert_rebuild.interpret.subject import SubjectFunction

# With more words there are too many subsets, so permutations are sampled.
MOST_EXACT = 16


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """How much the output decreases if one word is replaced by the baseline.

        score of a word = value(text) − value(text without the word)

    Reference: Li et al., 2016, section 3 (https://arxiv.org/abs/1612.08220).
    """

    name: ClassVar[str] = "leave_one_out"
    title: ClassVar[str] = "leave one out"

    def scores(self, function: SubjectFunction) -> Scores:
        words = function.word_count
        present = np.concatenate([np.ones((1, words), bool), ~np.eye(words, dtype=bool), np.zeros((1, words), bool)])
        values = _values(function, present)
        return Scores(spread_over_tokens(function, values[0] - values[1:-1]), float(values[0]), float(values[-1]))


@dataclass(frozen=True)
class Shapley(Method):
    """The marginal contribution of a word to the words before it, averaged over all orders.

        score of a word w = Σ_S |S|! (n − |S| − 1)! / n! · (value(S ∪ {w}) − value(S))

    The scores sum to value(text) − value(baseline). With few words all subsets are evaluated; with more, permutations are sampled,
    each with its reverse, and the scores have a standard error.

    Args:
        samples: number of permutations to sample, an even number.
        exact_words: maximum number of words for which all subsets are evaluated, 2 to that power.
        seed: seed of the permutations.

    Reference: Shapley, 1953; Castro et al., 2009, for the sampling; Mitchell et al., 2022, section 3
    (https://arxiv.org/abs/2104.12199), for permutations with their reverse.
    """

    name: ClassVar[str] = "shapley"
    title: ClassVar[str] = "Shapley values"

    samples: int = 64
    exact_words: int = 8
    seed: int = 0

    def scores(self, function: SubjectFunction) -> Scores:
        if self.samples < 4 or self.samples % 2:
            raise ValueError(f"samples must be an even number of at least 4, for a standard error; got {self.samples}.")
        if not 0 <= self.exact_words <= MOST_EXACT:
            raise ValueError(f"exact_words must be from 0 to {MOST_EXACT}; got {self.exact_words}.")
        words = function.word_count
        found, ends, errors = self._exact(function) if words <= self.exact_words else self._sampled(function)
        return Scores(spread_over_tokens(function, found), ends[1], ends[0], complete=True, errors=errors)

    def _exact(self, function):
        words = function.word_count
        sets = (np.arange(2**words)[:, None] >> np.arange(words)) & 1
        values = _values(function, sets.astype(bool))
        found, sizes = np.zeros(words), sets.sum(1)
        for word in range(words):
            without = np.flatnonzero(sets[:, word] == 0)
            added = values[without + 2**word] - values[without]
            weights = [1 / (words * math.comb(words - 1, size)) for size in sizes[without].tolist()]
            found[word] = added @ np.array(weights)
        return found, (float(values[0]), float(values[-1])), None

    def _sampled(self, function):
        words, random = function.word_count, np.random.default_rng(self.seed)
        halves = np.stack([random.permutation(words) for _ in range(self.samples // 2)])
        orders = np.stack([halves, halves[:, ::-1]], axis=1).reshape(-1, words)
        # Row k of a permutation contains its first k words.
        present = np.zeros((len(orders), words + 1, words), bool)
        for number, order in enumerate(orders):
            for size in range(words):
                present[number, size + 1] = present[number, size]
                present[number, size + 1, order[size]] = True
        values = _values(function, present.reshape(-1, words)).reshape(len(orders), words + 1)
        added = np.zeros((len(orders), words))
        np.put_along_axis(added, orders, np.diff(values, axis=1), axis=1)
        pairs = added.reshape(-1, 2, words).mean(1)  # a permutation and its reverse are not independent
        errors = pairs.std(0, ddof=1) / len(pairs) ** 0.5
        return pairs.mean(0), (float(values[0, 0]), float(values[0, -1])), errors


def _values(function, present):
    """The outputs for subsets of words, each evaluated once, `(sets,)`."""
    distinct, numbers = np.unique(present, axis=0, return_inverse=True)
    return function.values(len(distinct), lambda part: function.with_words(distinct[part]))[numbers.reshape(-1)]
