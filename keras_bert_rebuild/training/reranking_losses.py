"""The losses of a reranker, on the scores of texts for a query: pointwise, pairwise and listwise.

The texts of a query are a list; all lists of a batch have the same number of rows, and padding rows do not count.
"""

import math
from typing import Any

import keras
from keras import ops

# The logit of a padding row, whose exponential is 0: −inf would give NaN gradients in a list without texts.
PADDED = -1e9


class RerankingLoss(keras.losses.Loss):
    """The base class of reranking losses: a mean over the terms of all lists of a batch. Abstract.

    Args:
        list_size: number of consecutive rows per list.
        name, reduction: as for any loss.

    Call arguments:
        y_true: `(lists · list_size, 2)`: the label of every text, and 1 for a text or 0 for a padding row.
        y_pred: logits `(lists · list_size, 1)`.
    """

    from_logits = True

    def __init__(
        self, list_size: int = 1, name: str | None = None, reduction: str | None = "sum_over_batch_size", **kwargs: Any
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.list_size = list_size

    def call(self, y_true, y_pred):
        scores = ops.reshape(ops.cast(y_pred, "float32"), (-1, self.list_size))
        labels, counts = (ops.reshape(ops.cast(y_true[:, i], "float32"), (-1, self.list_size)) for i in range(2))
        losses, weights = self.terms(scores, labels, counts)
        mean = ops.sum(losses * weights) / ops.maximum(ops.sum(weights), 1e-9)
        return ops.ones_like(y_pred[:, 0]) * mean

    def terms(self, scores, labels, counts):
        """The terms of the mean and their weights, of the same shape.

        Args:
            scores, labels: `(lists, list_size)`.
            counts: 1 for a text, 0 for padding.
        """
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), "list_size": self.list_size}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PointwiseLoss(RerankingLoss):
    """Binary cross entropy of every text, with labels from 0, irrelevant, to 1, relevant.

        loss = −weight · y · log σ(s) − (1 − y) · log σ(−s)

    Args:
        positive_weight: weight of relevant texts, such as the number of irrelevant texts per relevant one.
        list_size, name, reduction: see `RerankingLoss`.

    Reference: Nogueira and Cho, 2019, section 3 (https://arxiv.org/abs/1901.04085).
    """

    def __init__(self, positive_weight: float = 1.0, name: str = "pointwise_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.positive_weight = float(positive_weight)

    def terms(self, scores, labels, counts):
        relevant = self.positive_weight * labels * ops.softplus(-scores)
        return relevant + (1 - labels) * ops.softplus(scores), counts

    def get_config(self):
        return {**super().get_config(), "positive_weight": self.positive_weight}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class SquaredErrorLoss(RerankingLoss):
    """The squared difference between logits and labels, such as the scores of a teacher."""

    def terms(self, scores, labels, counts):
        return ops.square(scores - labels), counts


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MarginErrorLoss(RerankingLoss):
    """The squared difference between the margins of a teacher and of the model, from the first text of a list to every other.

    loss = ((s₀ − sᵢ) − (y₀ − yᵢ))²        for i > 0

    Reference: Hofstätter et al., 2020, section 3.2 (https://arxiv.org/abs/2010.02666).
    """

    def terms(self, scores, labels, counts):
        margins = (scores[:, :1] - scores) - (labels[:, :1] - labels)
        return ops.square(margins)[:, 1:], counts[:, 1:]


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PairwiseLoss(RerankingLoss):
    """RankNet: cross entropy of the order of every pair of texts of a list with different labels.

        loss = −log σ(sᵢ − sⱼ)        for yᵢ > yⱼ

    Reference: Burges et al., 2005, section 3 (https://doi.org/10.1145/1102351.1102363).
    """

    def terms(self, scores, labels, counts):
        return ops.softplus(_differences(scores) * -1), _ordered(labels, counts)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LambdaLoss(RerankingLoss):
    """NDCG-Loss2++: RankNet with every pair of texts weighted by the change in nDCG if they were swapped.

        loss = −|gᵢ − gⱼ| · (|1/D(rᵢ) − 1/D(rⱼ)| + mu · |1/D(d) − 1/D(d + 1)|) · log σ(sᵢ − sⱼ)        for yᵢ > yⱼ

    g is the gain 2^y − 1 as a fraction of the ideal DCG of the list, D(r) = log₂(1 + r), r the rank by the scores, and
    d = |rᵢ − rⱼ|.

    Args:
        mu: weight of the second term.
        list_size, name, reduction: see `RerankingLoss`.

    Reference: Wang et al., 2018, section 4.3 (https://doi.org/10.1145/3269206.3271784).
    """

    def __init__(self, mu: float = 10.0, name: str = "lambda_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.mu = float(mu)

    def terms(self, scores, labels, counts):
        ranks = ops.stop_gradient(_ranks(ops.where(counts > 0, scores, PADDED)))
        gains = counts * (2.0 ** ops.maximum(labels, 0.0) - 1)
        best = ops.sum(gains / _discount(_ranks(ops.where(counts > 0, gains, -1.0))), axis=1, keepdims=True)
        gains = gains / ops.maximum(best, 1e-9)
        distance = ops.abs(_differences(ranks))
        by_distance = ops.abs(1 / _discount(ops.maximum(distance, 1.0)) - 1 / _discount(distance + 1))
        by_rank = ops.abs(_differences(1 / _discount(ranks)))
        weights = ops.abs(_differences(gains)) * (by_rank + self.mu * by_distance)
        return weights * ops.softplus(_differences(scores) * -1), _ordered(labels, counts)

    def get_config(self):
        return {**super().get_config(), "mu": self.mu}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ListwiseLoss(RerankingLoss):
    """Cross entropy of the distribution of relevance over the texts of a list.

        loss = −Σᵢ pᵢ · log softmax(s)ᵢ        p = y / Σ y, or softmax(y)

    Args:
        from_scores: whether labels are scores whose softmax is the distribution, such as a teacher's; otherwise they are weights of
            at least 0, and a list whose labels are all 0 does not count.
        list_size, name, reduction: see `RerankingLoss`.

    Reference: Cao et al., 2007, section 4.2 (https://doi.org/10.1145/1273496.1273513).
    """

    def __init__(self, from_scores: bool = False, name: str = "listwise_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.from_scores = from_scores

    def terms(self, scores, labels, counts):
        if self.from_scores:
            shares = ops.softmax(ops.where(counts > 0, labels, PADDED), axis=1) * counts
        else:
            shares = ops.maximum(labels, 0.0) * counts
        total = ops.sum(shares, axis=1)
        logits = ops.where(counts > 0, scores, PADDED)
        losses = ops.sum(shares * (ops.logsumexp(logits, axis=1, keepdims=True) - scores), axis=1) / ops.maximum(total, 1e-9)
        return losses, ops.cast(total > 0, "float32")

    def get_config(self):
        return {**super().get_config(), "from_scores": self.from_scores}


def _differences(values):
    """`values[i] − values[j]`, `(lists, n)` → `(lists, n, n)`."""
    return values[:, :, None] - values[:, None, :]


def _ordered(labels, counts):
    """1 where text i of a list has a higher label than text j, `(lists, n, n)`."""
    return ops.cast(_differences(labels) > 0, "float32") * counts[:, :, None] * counts[:, None, :]


def _ranks(scores):
    """The rank of every text in its list, from 1 for the best, `(lists, n)`; ties are ranked in order."""
    n = scores.shape[1]
    before = ops.cast(ops.arange(n)[None, :] < ops.arange(n)[:, None], "float32")  # [i, j]: j comes before i
    higher = ops.cast(_differences(scores) < 0, "float32")
    equal = ops.cast(_differences(scores) == 0, "float32")
    return 1 + ops.sum(higher + equal * before[None], axis=2)


def _discount(ranks):
    return ops.log(1 + ranks) / math.log(2)
