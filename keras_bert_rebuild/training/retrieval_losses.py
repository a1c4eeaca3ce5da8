"""Losses over groups of a query, its positive and its negatives, on the scores of queries with the texts of the batch.

The targets of a batch of groups are one array `(groups, texts, columns)`. For every text it has an id, which equal texts share and
which is -1 for a missing text; the score of a teacher; and, with a guide, the guide's vector of the text.
"""

import abc
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.score_loss import ScoreLoss, diagonal, log_sum, unit

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

    usual_name = "in_batch_negatives_loss"

    def __init__(
        self,
        scale: float | None = None,
        name: str | None = None,
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

    def vector_losses(self, y_true, vectors, similarity):
        groups, texts = ops.shape(vectors)[0], vectors.shape[1] - 1
        queries, positives = vectors[:, 0], vectors[:, 1]
        same = diagonal(groups)
        first = ops.arange(texts) == 0
        own = ops.reshape(same[:, :, None] & first, (groups, -1))  # of every query its own positive, (B, B · texts)
        scores = similarity.every(queries, ops.reshape(vectors[:, 1:], (-1, *ops.shape(vectors)[2:])))
        right = similarity.own(queries, positives[:, None])[:, 0]
        answers = _KnownAnswers(y_true, groups, texts) if len(y_true.shape) == 3 else None
        guide = _Guide(y_true, groups) if self.guided else None

        def counted(scores, own, answers_of, of_guide):
            """Which candidates count: the positive itself, and those neither known nor assumed to be answers."""
            counts = ops.ones_like(own) if answers is None else ~answers_of(answers)
            if guide is not None:
                counts &= of_guide(guide) <= guide.right[:, None] + (self.margin or 0.0)
            elif self.margin is not None:
                counts &= scores <= right[:, None] + self.margin
            return counts | own

        candidates = [(scores, counted(scores, own, lambda ids: ids.texts, lambda guide: guide.texts))]
        if self.same_side:
            for side, by_guide in ((queries, lambda guide: guide.queries), (positives, lambda guide: guide.positives)):
                among = similarity.every(side, side)
                candidates.append((among, counted(among, same, lambda ids: ids.queries, by_guide) & ~same))
        every, counts = (ops.concatenate(parts, axis=1) for parts in zip(*candidates, strict=True))
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


class _KnownAnswers:
    """Candidates to leave out by the ids of texts: `texts (B, B · texts)` and `queries (B, B)`, true for texts that answer a query,
    queries that its positive answers, and missing texts."""

    def __init__(self, y_true, groups, texts):
        ids = ops.cast(y_true[..., TEXT], "int32")
        query, positive = ids[:, 0], ids[:, 1]
        candidates = ops.reshape(ids[:, 1:], (-1,))
        asks_the_same = query[:, None] == query
        same_answers = ops.reshape(asks_the_same[:, :, None] & (ops.arange(texts) == 0), (groups, -1))
        answers = (candidates == query[:, None]) | (candidates == positive[:, None])
        self.texts = answers | same_answers | (candidates < 0)
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


class TeacherLoss(ScoreLoss):
    """A loss that learns the scores of a teacher for the texts of a group. Abstract; a subclass defines `of_scores`.

    Call arguments:
        y_true: see the module.
        y_pred: `(groups, texts, ..., width)`: query, positive, at least one negative.
    """

    def vector_losses(self, y_true, vectors, similarity):
        if vectors.shape[1] < 3:
            raise ValueError("groups must have at least one negative to learn a teacher's scores; they have none.")
        scores = similarity.own(vectors[:, 0], vectors[:, 1:]) * self.factor
        return self.score_losses(scores, y_true[:, 1:, TEACHER], y_true[:, 1:, TEXT] >= 0)

    @abc.abstractmethod
    def score_losses(self, scores, teacher, present):
        """The losses of groups, `(groups,)`.

        Args:
            scores: the scores of the positive and the negatives, `(groups, texts)`.
            teacher: those of the teacher.
            present: bool, false for missing texts.
        """


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class MarginLoss(TeacherLoss):
    """The squared difference between the margins of the model and of a teacher, from the positive to every negative.

        s = scale · similarity(query, ·)        loss = mean over negatives of (s₊ − s₋ − (t₊ − t₋))²

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Reference: Hofstätter et al., 2020, section 3.2 (https://arxiv.org/abs/2010.02666).
    """

    usual_name, usual_scale = "margin_loss", 1.0

    def score_losses(self, scores, teacher, present):
        present = ops.cast(present[:, 1:], "float32")
        errors = ops.square((scores[:, :1] - scores[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])) * present
        # A mean over negatives, whose number may differ between groups: Keras divides by the number of groups.
        share = ops.cast(ops.shape(errors)[0], "float32") / ops.maximum(ops.sum(present), 1.0)
        return ops.sum(errors, axis=-1) * share


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistillationLoss(TeacherLoss):
    """The KL divergence from a teacher's distribution over the texts of a group, such as a reranker's, to the model's.

        p = softmax(t)        q = softmax(scale · similarity(query, ·))        loss = Σ p · (log p − log q)

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Reference: Hinton et al., 2015, section 2 (https://arxiv.org/abs/1503.02531); Lin et al., 2020, section 3
    (https://arxiv.org/abs/2010.11386).
    """

    usual_name = "distillation_loss"

    def score_losses(self, scores, teacher, present):
        student, teacher = (of - log_sum(of, present)[:, None] for of in (scores, teacher))
        return ops.sum(ops.where(present, ops.exp(teacher) * (teacher - student), 0.0), axis=-1)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class GroupedLoss(keras.losses.Loss):
    """A `ScoreLoss` on rows of texts, where the query and the texts of a group are consecutive rows.

    Args:
        loss: the loss over groups.
        texts: rows per group: a query, its positive and its negatives.
        name, reduction: as for any loss.

    Call arguments:
        y_true: `(groups · texts, columns)`, as for `training.retrieval_losses`.
        y_pred: `(groups · texts, ..., width)`.
    """

    def __init__(
        self, loss: ScoreLoss, texts: int, name: str = "grouped_loss", reduction: str | None = "sum_over_batch_size", **kwargs: Any
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.loss, self.texts = loss, int(texts)

    def call(self, y_true, y_pred):
        losses = self.loss.call(self._grouped(y_true), self._grouped(y_pred))
        return ops.repeat(losses, self.texts)

    def _grouped(self, rows):
        return ops.reshape(rows, (-1, self.texts, *ops.shape(rows)[1:]))

    def get_config(self):
        return {**super().get_config(), "loss": keras.losses.serialize(self.loss), "texts": self.texts}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "loss": keras.losses.deserialize(config["loss"])})


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class FlopsRegularizer(keras.layers.Layer):
    """Returns its inputs, and in training adds the expected number of products of a search with them to the loss.

        FLOPS = Σ_words (mean over texts of weight)²        loss += rate · (queries · FLOPS(queries) + documents · FLOPS(documents))

    The rate grows quadratically with the step, from 0 to 1 after `steps` steps. The step counter is a non-trainable weight.

    Args:
        texts: rows per group: a query followed by its documents.
        queries, documents: the weights of the two terms.
        query_l1: weight of a further term, the mean over queries of the sum of their weights.
        steps: training steps until the rate is 1.

    Input and output shape: `(groups · texts, vocabulary)`.

    Reference: Paria et al., 2020, section 3 (https://arxiv.org/abs/2004.05665); its schedule as in Formal et al., 2021, section 4
    (https://arxiv.org/abs/2107.05720), and the L1 norm of queries as in Lassance and Clinchant, 2022, section 3.2
    (https://arxiv.org/abs/2207.03834).
    """

    def __init__(
        self,
        texts: int,
        queries: float = 5e-5,
        documents: float = 3e-5,
        query_l1: float = 0.0,
        steps: int = 1,
        name: str = "Flops-Regularizer",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.texts, self.steps = int(texts), int(steps)
        self.queries, self.documents, self.query_l1 = float(queries), float(documents), float(query_l1)

    def build(self, input_shape):
        self.step = self.add_weight(shape=(), initializer="zeros", dtype="int32", trainable=False, name="step")
        self.built = True

    def call(self, inputs, training=None):
        if training:
            groups = ops.reshape(inputs, (-1, self.texts, inputs.shape[-1]))
            queries, documents = groups[:, 0], ops.reshape(groups[:, 1:], (-1, inputs.shape[-1]))
            rate = ops.square(ops.minimum(ops.cast(self.step, "float32") / self.steps, 1.0))
            price = self.queries * flops(queries) + self.documents * flops(documents)
            if self.query_l1:
                price = price + self.query_l1 * ops.mean(ops.sum(ops.abs(queries), axis=-1))
            self.add_loss(rate * price)
            self.step.assign_add(1)
        return inputs

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        own = {"texts": self.texts, "queries": self.queries, "documents": self.documents, "query_l1": self.query_l1}
        return {**super().get_config(), **own, "steps": self.steps}


def flops(vectors: Any) -> Any:
    """Σ_words (mean over texts of |weight|)², of vectors `(texts, vocabulary)`."""
    return ops.sum(ops.square(ops.mean(ops.abs(vectors), axis=0)))
