"""Panels of a page besides attention: token scores, logit lens, head importance. Plain records, computed elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert_rebuild.explain.page_arrays import pack


@dataclass(frozen=True)
class TokenScores:
    """How much every token of a text contributed to one prediction."""

    tokens: Sequence[str]
    """The scored tokens in order, special ones included."""

    scores: Sequence[float]
    """One score per token; a positive one supports the prediction."""

    method: str
    """The name of the method, such as "integrated gradients"."""

    target: str
    """The explained prediction, such as the name of a label."""

    value: float | None = None
    """The model's output for the prediction, such as its logit; None if unknown."""

    baseline: float | None = None
    """The output for the baseline; the scores of a complete method sum to `value − baseline`."""


@dataclass(frozen=True)
class LensRows:
    """What the language model head would predict after every block, at every position."""

    blocks: Sequence[str]
    """The names of the rows in execution order, such as "embeddings", "block 0"."""

    tokens: Sequence[Sequence[Sequence[str]]]
    """The most probable tokens, `[row][position][rank]`."""

    probabilities: Any
    """Their probabilities, `(rows, positions, ranks)`."""


@dataclass(frozen=True)
class Panels:
    """What a page shows of one model besides its attention."""

    attributions: Sequence[TokenScores] = ()
    """Scores of the tokens, one record for each answer that is explained; records with the same fields will do."""

    lens: LensRows | None = None
    """What the head would say after every block."""

    importance: Any = None
    """A number for every head of the model, `(layers, heads)`."""


def attribution_data(attributions, tokens):
    """The attributions as data of the page.

    Args:
        attributions: `TokenScores`, or other records with the same fields.
        tokens: the tokens of the page.

    Raises:
        ValueError: an attribution is of other tokens, or a score is not finite.
    """
    made = []
    for attribution in attributions:
        _check_tokens("an attribution", attribution.tokens, tokens)
        scores = np.asarray(attribution.scores, float)
        if scores.shape != (len(tokens),) or not np.isfinite(scores).all():
            raise ValueError(f"an attribution must have a finite score for each of the {len(tokens)} tokens; got {scores.shape}.")
        made.append(
            {
                "method": str(attribution.method),
                "target": str(attribution.target),
                "value": None if attribution.value is None else float(attribution.value),
                "baseline": None if attribution.baseline is None else float(attribution.baseline),
                "scores": [float(f"{score:.6g}") for score in scores],
            }
        )
    return made


def lens_data(lens, tokens):
    """The lens as data of the page, and the array of its probabilities.

    Raises:
        ValueError: it has another number of positions, or its shapes do not match.
    """
    probabilities = np.asarray(lens.probabilities, "float32")
    shape = (len(lens.blocks), len(tokens), probabilities.shape[-1])
    places = [list(row) for row in lens.tokens]
    if probabilities.shape != shape or [len(row) for row in places] != [len(tokens)] * len(lens.blocks):
        raise ValueError(
            f"a lens must have {len(lens.blocks)} rows of the {len(tokens)} tokens of the page; got probabilities of shape "
            f"{probabilities.shape} and {len(places)} rows of tokens."
        )
    words: dict[str, int] = {}
    codes = [[[words.setdefault(str(token), len(words)) for token in ranked] for ranked in row] for row in places]
    return {"blocks": [str(block) for block in lens.blocks], "words": list(words), "codes": codes}, pack(probabilities, "uint16")


def importance_data(importance, layers, heads, layer_count, head_count):
    """The importance of the heads on the page, `[layer][head]`.

    Args:
        importance: an array `(layers, heads)` of the whole model.
        layers, heads: indices of the layers and heads on the page.
        layer_count, head_count: numbers of layers and heads of the model.

    Raises:
        ValueError: it has another shape, or a value is not finite.
    """
    values = np.asarray(importance, float)
    if values.shape != (layer_count, head_count) or not np.isfinite(values).all():
        raise ValueError(
            f"importance must be finite values of shape ({layer_count}, {head_count}), one for each head of the model; "
            f"got shape {values.shape}."
        )
    shown = values[np.ix_([i % layer_count for i in layers], [i % head_count for i in heads])]
    return [[float(f"{value:.6g}") for value in row] for row in shown]


def _check_tokens(what, actual, expected):
    actual, expected = [str(token) for token in actual], list(expected)
    if actual != expected:
        wrong = next((i for i, pair in enumerate(zip(actual, expected, strict=False)) if pair[0] != pair[1]), None)
        where = f"{len(actual)} tokens" if wrong is None else f"{actual[wrong]!r:.40} at position {wrong}"
        there = f"{len(expected)}" if wrong is None else f"{expected[wrong]!r:.40}"
        raise ValueError(f"{what} must be of the tokens of the page, {there}; got {where}.")
