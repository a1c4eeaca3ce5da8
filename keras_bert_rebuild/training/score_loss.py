"""Losses on similarities of texts: the similarities, cosine, product or MaxSim, and the base class of the losses."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.models.running_step import note_mean

# Replaces −∞ for what does not count, candidates and the products of tokens that are not compared: its exponential is 0 and has no
# gradient, and it is below every product of vectors.
NEVER = -1e9


def every_max_sim(queries: Any, texts: Any) -> Any:
    """The score of each query with each text, as `data/max_sim.py` computes it over stored vectors.

        score = Σ_i max_j query_i · text_j

    Tokens with zero vectors, such as padding and punctuation, are not compared.

    Args:
        queries: `(n, query tokens, width)`.
        texts: `(m, tokens, width)`.

    Returns:
        `(n, m)`.

    Reference: Khattab and Zaharia, 2020, section 3.3 (https://arxiv.org/abs/2004.12832).
    """
    products = ops.einsum("nqd,mtd->nmqt", queries, texts)
    return _summed(products, _compared(queries)[:, None, :], _compared(texts)[None, :, None, :])


def own_max_sim(queries: Any, texts: Any) -> Any:
    """The score of each query with each of its own texts: as `every_max_sim`, `texts (n, m, tokens, width)`."""
    products = ops.einsum("nqd,nmtd->nmqt", queries, texts)
    return _summed(products, _compared(queries)[:, None, :], _compared(texts)[:, :, None, :])


def _summed(products, of_query, of_text):
    best = ops.max(ops.where(of_text, products, NEVER), axis=-1)
    return ops.sum(ops.where(of_query, best, 0.0), axis=-1)


def _compared(vectors):
    return ops.max(ops.abs(vectors), axis=-1) > 0


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


class ScoreLoss(keras.losses.Loss, abc.ABC):
    """A loss on the similarities between the texts of a batch. Abstract; a subclass defines `of_vectors`.

    Args:
        similarity: a name in `SIMILARITIES`, such as "cosine" or "dot".
        scale: factor of the similarities, 1 / temperature; None for the `usual_scale` of the class.
        dims: Matryoshka dimensions: the loss is the weighted sum of the losses of vectors truncated to each of them. None for
            whole vectors.
        dim_weights: a weight for each of `dims`; None for 1.
        name, reduction: as for any loss; the default name is the `usual_name` of the class.

    Call arguments:
        y_true: see the subclass.
        y_pred: vectors in groups, `(groups, texts, width)`; or `(2 · pairs, width)`, where the two of a pair are consecutive.
            With a similarity between sets of vectors, a text has several: `(groups, texts, ..., width)`.

    Raises:
        ValueError: the similarity is unknown, a dimension is invalid, or there are not as many weights as dimensions.

    Reference: Kusupati et al., 2022, section 3, for `dims` (https://arxiv.org/abs/2205.13147).
    """

    usual_name: str | None = None
    """The default name."""

    usual_scale = 20.0
    """The default factor of the similarities."""

    learned_scale: Callable[[], Any] | None = None
    """A function that returns the factor, set by a training model that learns the temperature; None for `scale`."""

    takes_pairs = True
    """Whether vectors that are not in groups are consecutive pairs."""

    def __init__(
        self,
        scale: float | None = None,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        *,
        similarity: str = "cosine",
        dims: Sequence[int] | None = None,
        dim_weights: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=self.usual_name if name is None else name, reduction=reduction, **kwargs)
        similarity_of(similarity)
        self.similarity, self.scale = similarity, self.usual_scale if scale is None else scale
        self.dims = None if dims is None else [int(dim) for dim in dims]
        self.dim_weights = None if dim_weights is None else [float(weight) for weight in dim_weights]
        if self.dims is not None and not (self.dims and min(self.dims) > 0):
            raise ValueError(f"dims must be numbers of dimensions, each at least 1; got {dims}.")
        if self.dim_weights is not None and len(self.dim_weights) != len(self.dims or ()):
            raise ValueError(f"dim_weights must be a weight for each of dims; got {len(self.dim_weights)} for {self.dims}.")

    def __call__(self, y_true, y_pred, sample_weight=None):
        value = super().__call__(y_true, y_pred, sample_weight)
        if self.reduction == "sum_over_batch_size" and sample_weight is None:
            # A group has several rows: the mean of an epoch is over groups.
            note_mean(self, value, ops.cast(ops.shape(y_pred)[0], value.dtype))
        return value

    def call(self, y_true, y_pred):
        y_true, vectors = self.grouped(y_true, y_pred)
        similarity, width = similarity_of(self.similarity), vectors.shape[-1]
        dims = [width] if self.dims is None else self.dims
        if max(dims) > width:
            raise ValueError(f"dims must be at most {width}, the width of a vector; got {max(dims)}.")
        losses = [self.vector_losses(y_true, similarity.prepare(vectors[..., :dim]), similarity) for dim in dims]
        weights = [1.0] * len(dims) if self.dim_weights is None else self.dim_weights
        total = sum(loss * weight for loss, weight in zip(losses, weights, strict=True))
        return ops.repeat(total, 2) if self.takes_pairs and len(y_pred.shape) == 2 else total  # one for every row

    def grouped(self, y_true, y_pred):
        """Targets and vectors by group; consecutive pairs become groups of two with the target of the first."""
        if len(y_pred.shape) > 2:
            return y_true, y_pred
        pairs = ops.reshape(y_pred, (-1, 2, y_pred.shape[-1]))
        return ops.reshape(y_true, (-1, 2))[:, 0], pairs

    @abc.abstractmethod
    def vector_losses(self, y_true, vectors, similarity):
        """The losses of groups, `(groups,)`, from prepared vectors.

        Args:
            y_true: as in a call.
            vectors: `(groups, texts, ..., width)`.
            similarity: the `Similarity`.
        """

    @property
    def factor(self) -> Any:
        """The factor of the similarities."""
        return self.scale if self.learned_scale is None else self.learned_scale()

    def get_config(self):
        own = {"similarity": self.similarity, "dims": self.dims, "dim_weights": self.dim_weights}
        return {**super().get_config(), "scale": self.scale, **own}


def log_sum(scores: Any, counts: Any) -> Any:
    """log Σ exp(score) over the last axis, over the scores that count.

    Args:
        scores: `(..., n)`.
        counts: bool, broadcast to the scores; true at least once in every row.
    """
    return ops.logsumexp(ops.where(counts, scores, NEVER), axis=-1)


def diagonal(n: Any) -> Any:
    """True where row and column are the same, `(n, n)`; `n` may be known only at run time."""
    numbers = ops.arange(n, dtype="int32")
    return numbers[:, None] == numbers
