"""Similarities between texts, computed from the output of a model for each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras import ops

from keras_bert_rebuild.training.max_sim import every_max_sim, own_max_sim


@dataclass(frozen=True)
class Similarity:
    """A similarity between texts. Every text is an array, such as a vector `(width,)`, of the same shape."""

    every: Callable[[Any, Any], Any]
    """Maps `(n, ...)` and `(m, ...)` to the scores of all pairs, `(n, m)`."""

    own: Callable[[Any, Any], Any]
    """Maps `(n, ...)` and `(n, m, ...)` to the scores of each with its own, `(n, m)`."""

    prepare: Callable[[Any], Any] = lambda vectors: vectors
    """Applied to all vectors first, after truncation to a number of dimensions."""


def unit(vectors: Any) -> Any:
    """Vectors `(..., width)` scaled to length 1; zero vectors are unchanged."""
    return ops.normalize(vectors, axis=-1)


def _every_product(queries, texts):
    return ops.matmul(queries, ops.transpose(texts))


def _own_products(queries, texts):
    return ops.sum(queries[:, None] * texts, axis=-1)


# The similarities by their names in the configs of losses; others may be added without changing a loss.
SIMILARITIES: dict[str, Similarity] = {
    "cosine": Similarity(_every_product, _own_products, unit),
    "dot": Similarity(_every_product, _own_products),
    "max_sim": Similarity(every_max_sim, own_max_sim),
}


def similarity_of(name: str) -> Similarity:
    """A similarity by its name.

    Args:
        name: a name in `SIMILARITIES`; or "max_sim@n", MaxSim of queries with at most n tokens, at the first n positions.

    Raises:
        ValueError: the name is unknown.
    """
    kind, _, tokens = name.partition("@")
    if kind == "max_sim" and tokens.isdecimal():
        n = int(tokens)
        return Similarity(
            lambda queries, texts: every_max_sim(queries[:, :n], texts), lambda queries, texts: own_max_sim(queries[:, :n], texts)
        )
    if name not in SIMILARITIES:
        raise ValueError(f"similarity must be one of {', '.join(SIMILARITIES)}; got {name!r}.")
    return SIMILARITIES[name]
