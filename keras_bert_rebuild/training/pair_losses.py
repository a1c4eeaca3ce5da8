"""Losses on the similarities of texts: for pairs with scores, and for texts with labels."""

import keras
from keras import ops

from keras_bert_rebuild.training.score_loss import ScoreLoss, diagonal, log_sum


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class CosineLoss(ScoreLoss):
    """The squared difference between the similarity of two texts and their target similarity.

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Call arguments:
        y_true: `(2 · pairs,)`, the score of each pair twice, in [-1, 1] for cosines; or `(pairs,)` for vectors in groups.
        y_pred: vectors `(2 · pairs, hidden)`, where the two of a pair are consecutive; or `(pairs, 2, hidden)`.

    Reference: Reimers and Gurevych, 2019, section 3 (https://arxiv.org/abs/1908.10084).
    """

    usual_name, usual_scale = "cosine_loss", 1.0

    def vector_losses(self, y_true, vectors, similarity):
        return ops.square(similarity.own(vectors[:, 0], vectors[:, 1:])[:, 0] * self.factor - y_true)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class CoSentLoss(ScoreLoss):
    """A ranking loss: pairs with higher scores should have higher similarities.

        loss = log(1 + Σ exp(scale · (similarity_j − similarity_i)))        over all i, j of the batch where score_i > score_j

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Call arguments:
        y_true, y_pred: as for `CosineLoss`, scores in any range.

    Reference: Huang et al., 2024, section III (https://doi.org/10.1109/TASLP.2024.3402087).
    """

    usual_name = "cosent_loss"

    def vector_losses(self, y_true, vectors, similarity):
        scores = similarity.own(vectors[:, 0], vectors[:, 1:])[:, 0] * self.factor
        differences = ops.reshape(scores - scores[:, None], (-1,))  # (i, j): similarity of j − similarity of i
        wrong = ops.reshape(y_true[:, None] > y_true, (-1,))
        # The 1 in the formula is a further difference of 0.
        every, counts = ops.pad(differences, [(0, 1)]), ops.pad(wrong, [(0, 1)], constant_values=True)
        return ops.broadcast_to(log_sum(every, counts), ops.shape(scores))


class LabelledTextsLoss(ScoreLoss):
    """A loss for texts with labels. Abstract.

    Call arguments:
        y_true: the label id of every text, `(texts,)` or `(texts, 1)`.
        y_pred: vectors `(texts, width)` or `(texts, 1, width)`.
    """

    takes_pairs = False

    def grouped(self, y_true, y_pred):
        return ops.reshape(ops.cast(y_true, "int32"), (-1,)), y_pred[:, 0] if len(y_pred.shape) == 3 else y_pred


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class TripletLoss(LabelledTextsLoss):
    """Batch-hard triplet loss: for every text, the farthest text of its label and the nearest of another, by Euclidean distance.

        loss = log(1 + exp(scale · (farthest − nearest)))        distance² = s[i, i] − 2 s[i, j] + s[j, j]

    For the only text of a label, `farthest` is 0; in a batch with a single label, `nearest` equals `farthest`.

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Reference: Hermans et al., 2017, section 2, batch hard with soft margin (https://arxiv.org/abs/1703.07737).
    """

    usual_name, usual_scale = "triplet_loss", 1.0

    def vector_losses(self, y_true, vectors, similarity):
        scores = similarity.every(vectors, vectors)
        squares = ops.diagonal(scores)
        squared = squares[:, None] - 2 * scores + squares
        apart = squared > 0
        distances = ops.where(apart, ops.sqrt(ops.where(apart, squared, 1.0)), 0.0)  # the root of 0 has no gradient
        alike = y_true[:, None] == y_true
        other_rows = alike & ~diagonal(ops.shape(y_true)[0])
        farthest = ops.max(ops.where(other_rows, distances, 0.0), axis=1)
        nearest = ops.min(distances + ops.where(alike, ops.max(distances, axis=1, keepdims=True), 0.0), axis=1)
        return ops.softplus(self.factor * (farthest - nearest))


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ContrastiveLoss(LabelledTextsLoss):
    """Supervised contrastive loss: for every text, find those of its label among all others of the batch.

        loss_i = mean over j of the label of i of (log Σ_{k ≠ i} exp(s[i, k]) − s[i, j])        s = scale · similarity

    The only text of a label does not count as i.

    Args:
        scale, name, reduction, similarity, dims, dim_weights: see `ScoreLoss`.

    Reference: Khosla et al., 2020, equation 2 (https://arxiv.org/abs/2004.11362).
    """

    usual_name = "contrastive_loss"

    def vector_losses(self, y_true, vectors, similarity):
        scores = similarity.every(vectors, vectors) * self.factor
        other_rows = ~diagonal(ops.shape(y_true)[0])
        alike = ops.cast((y_true[:, None] == y_true) & other_rows, "float32")
        counts = ops.sum(alike, axis=1)
        losses = log_sum(scores, other_rows) - ops.sum(scores * alike, axis=1) / ops.maximum(counts, 1.0)
        has_any = ops.cast(counts > 0, "float32")
        share = ops.cast(ops.shape(has_any)[0], "float32") / ops.maximum(ops.sum(has_any), 1.0)
        return losses * has_any * share
