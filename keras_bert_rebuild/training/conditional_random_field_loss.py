"""The loss of a conditional random field: the negative log-probability of the right labels among all sequences of labels."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.training.losses import counted, mean_over_labels
from keras_bert_rebuild.training.task_losses import IGNORED


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ConditionalRandomFieldLoss(keras.losses.Loss):
    """Negative log-likelihood of sequences of labels, for the outputs of a `ConditionalRandomField`.

        loss = Σ (log Σ_y' exp(score(y')) − score(y)) / labels        over the sequences of a batch and all their labels

    The sequence of a row is its positions with a label: positions with the label -100 or a mask are skipped, as if they did not
    exist. With transitions of 0 this is the cross entropy of the labels.

    Args:
        name, reduction: as for any loss; None or "none" for the sum over each sequence, `(batch,)`.

    Call arguments:
        y_true: labels `(batch, length)`.
        y_pred: `(batch, length + labels + 2, labels)`.
        sample_weight: a weight for each sequence, `(batch,)`.

    Reference: Lafferty, McCallum and Pereira, 2001, section 3; Lample et al., 2016, section 2.2 (https://arxiv.org/abs/1603.01360).
    """

    takes_chains = True

    def __init__(
        self, name: str = "conditional_random_field_loss", reduction: str | None = "sum_over_batch_size", **kwargs: Any
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None):
        labels = y_pred.shape[-1]
        length, rows = y_true.shape[1] if len(y_true.shape) > 1 else None, y_pred.shape[1]
        if None not in (length, rows) and length + labels + 2 != rows:
            wanted = f"(batch, {length + labels + 2}, {labels}) for labels of length {length}"
            raise ValueError(f"expected the outputs of a ConditionalRandomField, {wanted}; got the length {rows}.")
        masked = ops.cast(counted(y_pred)[:, : -labels - 2], "bool")
        y_true = ops.where(masked, ops.reshape(ops.cast(y_true, "int32"), ops.shape(masked)), IGNORED)
        # Without the mask, which Keras would apply to sequences as if they were positions.
        y_pred = ops.multiply(y_pred, 1.0)
        value = super().__call__(y_true, y_pred, sample_weight)
        counts = ops.cast(ops.not_equal(y_true, IGNORED), self.dtype)
        return mean_over_labels(self, value, y_pred, sample_weight, counts)

    def call(self, y_true, y_pred):
        labels = y_pred.shape[-1]
        y_true = ops.cast(y_true, "int32")
        losses = chain_losses(y_pred[:, : -labels - 2], y_pred[:, -labels - 2 :], y_true)
        if self.reduction in (None, "none", "sum"):
            return losses
        # Keras divides by the number of sequences instead of that of labels.
        count = ops.sum(ops.cast(ops.not_equal(y_true, IGNORED), losses.dtype))
        return losses * ops.cast(ops.shape(losses)[0], losses.dtype) / ops.maximum(count, 1e-9)


def chain_losses(scores, transitions, y_true):
    """−log p of the labels of every sequence, `(batch,)`.

    Args:
        scores: `(batch, length, labels)`.
        transitions: `(batch, labels + 2, labels)`.
        y_true: `(batch, length)`, -100 at positions outside the sequence.
    """
    labels = scores.shape[-1]
    between, begin, end = transitions[:, :labels], transitions[:, labels], transitions[:, labels + 1]
    counts = ops.not_equal(y_true, IGNORED)
    right = ops.cast(counts, scores.dtype)[..., None] * ops.one_hot(ops.where(counts, y_true, 0), labels, dtype=scores.dtype)

    def step(carry, position):
        before, label, total = carry  # for every label the log-sum over sequences that end with it; the right label; its score
        score, right = position
        has_label, begun = ops.sum(right, axis=-1, keepdims=True) > 0, ops.sum(label, axis=-1, keepdims=True) > 0
        transition = ops.where(begun, ops.einsum("bi,bij->bj", label, between), begin)
        total = total + ops.sum(right * (score + transition), axis=-1)
        from_all = ops.where(begun, ops.logsumexp(before[:, :, None] + between, axis=1), begin)
        return ops.where(has_label, score + from_all, before), ops.where(has_label, right, label), total

    zeros = ops.zeros_like(begin)
    positions = ops.swapaxes(scores, 0, 1), ops.swapaxes(right, 0, 1)  # (B, L, labels) → (L, B, labels)
    before, label, total = kernels.bounded_scan(step, (zeros, zeros, ops.sum(zeros, axis=-1)), positions)
    total = total + ops.sum(label * end, axis=-1)
    return ops.where(ops.sum(label, axis=-1) > 0, ops.logsumexp(before + end, axis=-1) - total, 0.0)
