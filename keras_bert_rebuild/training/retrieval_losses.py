"""Losses of groups, each a query, its positive and negatives, over the scores of queries with the texts of the batch.

The targets of a batch of groups are one array `(groups, texts, columns)`: for every text the number that its equals have too,
-1 for a text that is missing; the score of a teacher; and, if a guide is used, the guide's vector of it.
"""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.score_loss import ScoreLoss, diagonal, log_sum
from keras_bert_rebuild.training.similarities import unit

# The columns of the targets; those from GUIDE on are a vector.
TEXT, TEACHER, GUIDE = 0, 1, 2


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class InBatchNegativesLoss(ScoreLoss):
    """Find the positive of every query among the texts of the batch.

        s[i, j] = scale · similarity(query_i, text_j)        loss_i = log Σ_j exp(s[i, j]) − s[i, positive_i]

    The candidates of a query are the positives and negatives of all groups, without those that are known to answer it: texts equal
    to the query or its positive, and the positive of an equal query. It depends on the batch: the more groups, the more candidates.
    Means over batches of different sizes are not comparable.

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.
        symmetric: the mean with the loss of finding the query of every positive among all queries.
        same_side: further candidates: the other queries, and for the positive the other positives.
        guided: leave out candidates that a guide takes for answers: whose cosine of its vectors is above that of the positive.
        margin: leave out only candidates that are above the positive by more than this; without a guide those whose own similarity
            is. None: 0 with a guide, and else nothing is left out.

    Call arguments:
        y_true: see the module. With `y_pred` in consecutive pairs `(2 · pairs,)`, ignored: all texts are distinct.
        y_pred: `(groups, texts, ..., width)`: query, positive, negatives.

    Reference: Henderson et al., 2017, section 4.4 (https://arxiv.org/abs/1705.00652); both directions as in Radford et al., 2021
    (https://arxiv.org/abs/2103.00020); a guide and `same_side` as in Solatorio, 2024 (https://arxiv.org/abs/2402.16829); a margin
    without a guide as in Zhang et al., 2025, section 3.2 (https://arxiv.org/abs/2506.05176).
    """

    def __init__(
        self,
        scale: float = 20.0,
        name: str = "in_batch_negatives_loss",
        reduction: str | None = "sum_over_batch_size",
        *,
        symmetric: bool = True,
        same_side: bool = False,
        guided: bool = False,
        margin: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scale, name, reduction, **kwargs)
        self.symmetric, self.same_side, self.guided, self.margin = symmetric, same_side, guided, margin

    def of_vectors(self, y_true, vectors, similarity):
        groups, texts = ops.shape(vectors)[0], vectors.shape[1] - 1
        queries, positives = vectors[:, 0], vectors[:, 1]
        same = diagonal(groups)
        first = ops.arange(texts) == 0
        own = ops.reshape(same[:, :, None] & first, (groups, -1))  # of every query its own positive, (B, B · texts)
        scores = similarity.every(queries, ops.reshape(vectors[:, 1:], (-1, *ops.shape(vectors)[2:])))
        right = similarity.own(queries, positives[:, None])[:, 0]
        known = _Known(y_true, groups, texts) if len(y_true.shape) == 3 else None
        guide = _Guide(y_true, groups) if self.guided else None

        def counted(scores, own, of_known, of_guide):
            """Which candidates count: none that is known or taken to be an answer, and the positive itself."""
            counts = ops.ones_like(own) if known is None else ~of_known(known)
            if guide is not None:
                counts &= of_guide(guide) <= guide.right[:, None] + (self.margin or 0.0)
            elif self.margin is not None:
                counts &= scores <= right[:, None] + self.margin
            return counts | own

        found = [(scores, counted(scores, own, lambda ids: ids.texts, lambda guide: guide.texts))]
        if self.same_side:
            for side, by_guide in ((queries, lambda guide: guide.queries), (positives, lambda guide: guide.positives)):
                among = similarity.every(side, side)
                found.append((among, counted(among, same, lambda ids: ids.queries, by_guide) & ~same))
        every, counts = (ops.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        factor = self.factor
        total = log_sum(every * factor, counts)
        if self.symmetric:
            back = ops.transpose(ops.reshape(scores, (groups, -1, texts))[:, :, 0])  # of every positive all queries
            counts = counted(back, same, lambda ids: ids.queries, lambda guide: guide.back)
            total = 0.5 * (total + log_sum(back * factor, counts))
        return total - right * factor

    def get_config(self):
        own = {"symmetric": self.symmetric, "same_side": self.same_side, "guided": self.guided, "margin": self.margin}
        return {**super().get_config(), **own}


class _Known:
    """What the numbers of texts tell about candidates: `texts (B, B · texts)` and `queries (B, B)`, true for those that answer a
    query, or that its positive answers, or that are missing."""

    def __init__(self, y_true, groups, texts):
        ids = ops.cast(y_true[..., TEXT], "int32")
        query, positive = ids[:, 0], ids[:, 1]
        candidates = ops.reshape(ids[:, 1:], (-1,))
        asks_the_same = query[:, None] == query
        of_equal = ops.reshape(asks_the_same[:, :, None] & (ops.arange(texts) == 0), (groups, -1))
        answers = (candidates == query[:, None]) | (candidates == positive[:, None])
        self.texts = answers | of_equal | (candidates < 0)
        self.queries = asks_the_same | (positive[:, None] == positive) | (positive[:, None] == query)


class _Guide:
    """A guide's cosines: of every query with the candidates, of queries and of positives with each other, and of every positive
    with the queries."""

    def __init__(self, y_true, groups):
        vectors = unit(y_true[..., GUIDE:])
        queries, positives = vectors[:, 0], vectors[:, 1]
        self.right = ops.sum(queries * positives, axis=-1)
        self.texts = ops.matmul(queries, ops.transpose(ops.reshape(vectors[:, 1:], (-1, vectors.shape[-1]))))
        self.queries = ops.matmul(queries, ops.transpose(queries))
        self.positives = ops.matmul(positives, ops.transpose(positives))
        self.back = ops.matmul(positives, ops.transpose(queries))


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MarginLoss(ScoreLoss):
    """The squared error of the distance between positive and negative, compared with that of a teacher's scores.

        s = scale · similarity(query, ·)        loss = mean over negatives of (s₊ − s₋ − (t₊ − t₋))²

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Call arguments:
        y_true: see the module.
        y_pred: `(groups, texts, ..., width)`: query, positive, at least one negative.

    Reference: Hofstätter et al., 2020, section 3.2 (https://arxiv.org/abs/2010.02666).
    """

    def __init__(
        self, scale: float = 1.0, name: str = "margin_loss", reduction: str | None = "sum_over_batch_size", **kwargs: Any
    ) -> None:
        super().__init__(scale, name, reduction, **kwargs)

    def of_vectors(self, y_true, vectors, similarity):
        _check_negatives(vectors)
        scores = similarity.own(vectors[:, 0], vectors[:, 1:]) * self.factor
        wanted, present = y_true[:, 1:, TEACHER], ops.cast(y_true[:, 2:, TEXT] >= 0, "float32")
        errors = ops.square((scores[:, :1] - scores[:, 1:]) - (wanted[:, :1] - wanted[:, 1:])) * present
        # A mean over negatives, of which groups may have different numbers: Keras divides by the groups.
        share = ops.cast(ops.shape(errors)[0], "float32") / ops.maximum(ops.sum(present), 1.0)
        return ops.sum(errors, axis=-1) * share


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistillationLoss(ScoreLoss):
    """The divergence of the distribution over a group's texts from that of a teacher, such as a reranker.

        p = softmax(t)        q = softmax(scale · similarity(query, ·))        loss = Σ p · (log p − log q)

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Call arguments:
        y_true: see the module.
        y_pred: `(groups, texts, ..., width)`: query, positive, at least one negative.

    Reference: Hinton et al., 2015, section 2 (https://arxiv.org/abs/1503.02531); Lin et al., 2020, section 3
    (https://arxiv.org/abs/2010.11386).
    """

    def __init__(
        self, scale: float = 20.0, name: str = "distillation_loss", reduction: str | None = "sum_over_batch_size", **kwargs: Any
    ) -> None:
        super().__init__(scale, name, reduction, **kwargs)

    def of_vectors(self, y_true, vectors, similarity):
        _check_negatives(vectors)
        present = y_true[:, 1:, TEXT] >= 0
        student = similarity.own(vectors[:, 0], vectors[:, 1:]) * self.factor
        student, teacher = (scores - log_sum(scores, present)[:, None] for scores in (student, y_true[:, 1:, TEACHER]))
        return ops.sum(ops.where(present, ops.exp(teacher) * (teacher - student), 0.0), axis=-1)


def _check_negatives(vectors):
    if vectors.shape[1] < 3:
        raise ValueError("groups must have a positive and at least one negative for a teacher's scores; they have no negative.")
