"""How similar two texts are, from what a model answers for each: the part of the losses over scores that knows about vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras import ops

from keras_bert_rebuild.training.max_sim import every_max_sim, own_max_sim


@dataclass(frozen=True)
class Similarity:
    """A similarity of texts. Every text is an array of its own, such as a vector `(width,)`, the same shape for all."""

    every: Callable[[Any, Any], Any]
    """From `(n, ...)` and `(m, ...)` to the scores of each one with each other, `(n, m)`."""

    own: Callable[[Any, Any], Any]
    """From `(n, ...)` and `(n, m, ...)` to the scores of each with its own, `(n, m)`."""

    prepare: Callable[[Any], Any] = lambda vectors: vectors
    """What is done to all vectors first; after they are cut to a number of dimensions."""


def unit(vectors: Any) -> Any:
    """Vectors `(..., width)`, scaled to length 1; a vector of zeros stays one."""
    return ops.normalize(vectors, axis=-1)


def _every_product(queries, texts):
    return ops.matmul(queries, ops.transpose(texts))


def _own_products(queries, texts):
    return ops.sum(queries[:, None] * texts, axis=-1)


# The similarities by the names that the configs of losses have; what adds one need not change a loss.
SIMILARITIES: dict[str, Similarity] = {
    "cosine": Similarity(_every_product, _own_products, unit),
    "dot": Similarity(_every_product, _own_products),
    "max_sim": Similarity(every_max_sim, own_max_sim),
}


def similarity_of(name: str) -> Similarity:
    """A similarity by its name.

    Args:
        name: a name in `SIMILARITIES`; or "max_sim@n", MaxSim of queries of which at most the first n positions have tokens.

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
