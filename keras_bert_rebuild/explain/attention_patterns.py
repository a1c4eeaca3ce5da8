"""Scores for patterns that attention heads are known to follow."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Special tokens that tokenizers place around and between texts.
DELIMITERS = ("[CLS]", "[SEP]", "<s>", "</s>")

# Name of a pattern, and what a head that follows it does.
PATTERNS = (
    ("previous token", "attends to the previous token"),
    ("next token", "attends to the next token"),
    ("same token", "attends to the same token, here and elsewhere"),
    ("delimiter", "attends to [CLS] and [SEP], effectively a no-op"),
    ("same sentence", "attends to its own sentence"),
)


@dataclass(frozen=True)
class AttentionPatterns:
    """How strongly every head follows each pattern."""

    names: tuple
    """The names of the patterns, those of `PATTERNS`."""

    scores: np.ndarray
    """`(patterns, layers, heads)`, each in [0, 1]."""

    even: np.ndarray
    """The scores of a head with uniform attention, `(patterns,)`."""

    def of_head(self, layer: int, head: int, threshold: float = 0.5) -> list[tuple[str, float]]:
        """The patterns that a head follows, strongest first, as a list of `(name, score)`.

        Args:
            layer, head: indices along the axes of `scores`.
            threshold: minimum score, on a scale from uniform attention, 0, to the pure pattern, 1.
        """
        needed = self.even + threshold * (1 - self.even)
        patterns = [
            (name, float(score))
            for name, score, minimum in zip(self.names, self.scores[:, layer, head], needed, strict=True)
            if score >= minimum and minimum < 1
        ]
        return sorted(patterns, key=lambda pair: -pair[1])


def attention_patterns(
    probabilities: npt.ArrayLike,
    tokens: npt.ArrayLike,
    sentences: npt.ArrayLike | None = None,
    delimiters: Iterable[Any] = DELIMITERS,
) -> AttentionPatterns:
    """Score the attention maps of one text on the known patterns.

    Every score is a fraction of attention, averaged over the queries it applies to; P(q, k) is the attention of query q to key k:

        previous token   mean over q > 0 of P(q, q − 1)
        next token       mean over q < last of P(q, q + 1)
        same token       mean over q of the sum of P(q, k) over k with the same token as q, including q itself
        delimiter        mean over q of the sum of P(q, k) over delimiters k
        same sentence    mean over q of the sum of P(q, k) over k in the sentence of q

    For the last three, delimiters are not queries. A pattern without queries scores 0, as does "same sentence" for a single
    sentence.

    Args:
        probabilities: `(layers, heads, query, key)`, rows that sum to 1, without padding.
        tokens: the tokens, or their ids, `(length,)`.
        sentences: index of the sentence of every token, `(length,)`, -1 at delimiters; None for one sentence.
        delimiters: the tokens around and between sentences.

    Returns:
        `AttentionPatterns`.

    Raises:
        ValueError: the shapes do not fit.

    Reference: Clark et al., 2019, "What Does BERT Look At?", sections 3.1 and 3.2 (https://arxiv.org/abs/1906.04341); "same token"
    and "same sentence" as in Vig, 2019 (https://arxiv.org/abs/1906.05714).
    """
    probabilities, tokens = np.asarray(probabilities), np.asarray(tokens)
    length = len(tokens)
    sentences = np.zeros(length, int) if sentences is None else np.asarray(sentences)
    if probabilities.ndim != 4 or probabilities.shape[2:] != (length, length) or sentences.shape != (length,):
        raise ValueError(
            f"probabilities must be (layers, heads, {length}, {length}) and sentences ({length},) for {length} tokens; "
            f"got {probabilities.shape} and {sentences.shape}."
        )
    is_delimiter = np.isin(tokens, list(delimiters)) | (sentences < 0)
    masks = _masks(tokens, sentences, is_delimiter)
    scores = np.stack([_share(probabilities, *masks[name]) for name, _ in PATTERNS])
    even = np.full((1, 1, length, length), 1 / max(length, 1))
    return AttentionPatterns(
        tuple(name for name, _ in PATTERNS),
        scores,
        np.array([_share(even, *masks[name])[0, 0] for name, _ in PATTERNS]),
    )


def _masks(tokens, sentences, is_delimiter):
    """For every pattern its keys `(query, key)`, and the queries it applies to `(query,)`."""
    length = len(tokens)
    positions = np.arange(length)
    words = ~is_delimiter
    several = len(set(sentences[words].tolist())) > 1
    return {
        "previous token": (positions[:, None] - 1 == positions, positions > 0),
        "next token": (positions[:, None] + 1 == positions, positions < length - 1),
        "same token": (tokens[:, None] == tokens, words),
        "delimiter": (np.broadcast_to(is_delimiter, (length, length)), words),
        "same sentence": ((sentences[:, None] == sentences) & words, words & several),
    }


def _share(probabilities, keys, queries):
    """The mean over some queries of their total attention to some keys, `(layers, heads)`."""
    if not queries.any():
        return np.zeros(probabilities.shape[:2])
    shares = (probabilities * keys).sum(-1)[..., queries]
    return np.clip(shares.mean(-1), 0, 1)
