"""Losses over groups of a query, its positive and its negatives, on the scores of queries with the texts of the batch.

The targets of a batch of groups are one array `(groups, texts, columns)`. For every text it has an id, which equal texts share and
which is -1 for a missing text; the score of a teacher; and, with a guide, the guide's vector of the text.
"""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.score_loss import ScoreLoss, diagonal, log_sum
from keras_bert_rebuild.training.similarities import unit

# The columns of the targets; from GUIDE to the end, they are the guide's vector.
TEXT, TEACHER, GUIDE = 0, 1, 2


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class InBatchNegativesLoss(ScoreLoss):
    """Find the positive of every query among the texts of the batch.

        s[i, j] = scale · similarity(query_i, text_j)        loss_i = log Σ_j exp(s[i, j]) − s[i, positive_i]

    The candidates of a query are the positives and negatives of all groups, except for those known to answer it: texts equal to the
    query or its positive, and positives of equal queries. More groups in a batch mean more candidates, so losses of batches of
    different sizes are not comparable.

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.
        symmetric: average with the loss of finding the query of every positive among all queries.
        same_side: add candidates: for a query the other queries, for a positive the other positives.
        guided: leave out candidates that a guide scores above the positive, by the cosine of its vectors.
        margin: leave out only candidates that score above the positive by more than this, with a guide by its cosine, without one
            by the model's own similarity. None: 0 with a guide; without one, nothing is left out.

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
            """Which candidates count: the positive itself, and those neither known nor assumed to be answers."""
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
            back = ops.transpose(ops.reshape(scores, (groups, -1, texts))[:, :, 0])  # of every positive with all queries
            counts = counted(back, same, lambda ids: ids.queries, lambda guide: guide.back)
            total = 0.5 * (total + log_sum(back * factor, counts))
        return total - right * factor

    def get_config(self):
        own = {"symmetric": self.symmetric, "same_side": self.same_side, "guided": self.guided, "margin": self.margin}
        return {**super().get_config(), **own}


class _Known:
    """Candidates to leave out by the ids of texts: `texts (B, B · texts)` and `queries (B, B)`, true for texts that answer a query,
    queries that its positive answers, and missing texts."""

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
    """A guide's cosines: queries with candidates, queries with queries, positives with positives, and positives with queries."""

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
    """The squared difference between the margins of the model and of a teacher, from the positive to every negative.

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
        # A mean over negatives, whose number may differ between groups: Keras divides by the number of groups.
        share = ops.cast(ops.shape(errors)[0], "float32") / ops.maximum(ops.sum(present), 1.0)
        return ops.sum(errors, axis=-1) * share


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistillationLoss(ScoreLoss):
    """The KL divergence from a teacher's distribution over the texts of a group, such as a reranker's, to the model's.

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
        raise ValueError("groups must have at least one negative to learn a teacher's scores; they have none.")
