"""The losses of fine-tuning, for weighted labels, spans, choices and sequences of labels, and the loss of distillation.

For vectors, see `score_loss`.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.training.losses import IGNORED, counted, mean_over_labels, weighted


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class LabelLoss(keras.losses.Loss):
    """Cross entropy of labels from logits, weighted by class; positions with the label -100 are ignored.

        loss = Σ weight[label] · (log Σ_c exp(logits[c]) − logits[label]) / Σ weight[label]

    Args:
        class_weights: a weight for each class; None for 1.
        name, reduction: as for any loss.

    Call arguments:
        y_true: `(batch,)`, or `(batch, length)` for labels of tokens.
        y_pred: `(batch, classes)` or `(batch, length, classes)`.

    Example:

    >>> import numpy as np
    >>> loss = LabelLoss(class_weights=[1.0, 3.0])
    >>> round(float(loss(np.array([0, 1, -100]), np.array([[0.0, 8.0], [0.0, 0.0], [5.0, 5.0]]))), 2)
    2.52
    """

    from_logits = True
    ignored = IGNORED

    def __init__(
        self,
        class_weights: Sequence[float] | None = None,
        name: str = "label_loss",
        reduction: str | None = "sum_over_batch_size",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.class_weights = None if class_weights is None else [float(weight) for weight in class_weights]

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Without the mask of padding, which Keras would apply to the losses again.
        y_pred = ops.multiply(y_pred, 1.0)
        value = super().__call__(y_true, y_pred, sample_weight)
        _, weights = self._labels_and_weights(y_true, y_pred)
        return mean_over_labels(self, value, y_pred, sample_weight, weights)

    def call(self, y_true, y_pred):
        labels, weights = self._labels_and_weights(y_true, y_pred)
        losses = ops.sparse_categorical_crossentropy(labels, y_pred, from_logits=True)
        # Keras divides by the number of losses instead of the sum of the weights.
        share = ops.cast(ops.size(weights), losses.dtype) / ops.maximum(ops.sum(weights), 1e-9)
        return losses * weights * share

    def _labels_and_weights(self, y_true, y_pred):
        labels = ops.reshape(ops.cast(y_true, "int32"), ops.shape(y_pred)[:-1])
        counts = labels != IGNORED
        labels, weights = ops.where(counts, labels, 0), ops.cast(counts, self.dtype)
        if self.class_weights is not None:
            weights = weights * ops.take(ops.convert_to_tensor(self.class_weights, dtype=self.dtype), labels)
        return labels, weights

    def get_config(self):
        return {**super().get_config(), "class_weights": self.class_weights}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class SpanLoss(keras.losses.Loss):
    """The mean of the cross entropies of the first and the last token of an answer, with padding excluded.

    Call arguments:
        y_true: `(batch, 2)`, the first and the last token; 0 and 0 for no answer.
        y_pred: logits `(batch, length, 2)`.

    Reference: Devlin et al., 2019, section 4.2; `compute_loss` in `run_squad.py` of google-research/bert, which includes padding.
    """

    from_logits = True

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Not −inf: a probability of 0 has no gradient, and the loss of a row without tokens would be NaN.
        y_pred = ops.where(ops.cast(counted(y_pred), "bool")[..., None], y_pred, -10000.0)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        logits = ops.swapaxes(y_pred, 1, 2)  # (B, L, 2) → (B, 2, L)
        labels = ops.cast(y_true, "int32")
        return ops.mean(ops.sparse_categorical_crossentropy(labels, logits, from_logits=True), axis=-1)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ChoiceLoss(keras.losses.Loss):
    """Cross entropy of the correct choice of a question, whose choices are consecutive rows.

    Call arguments:
        y_true: `(questions · choices, choices)`, in every row the labels of all choices of its question: 1 for the correct one, 0
            for others, -1 for padding.
        y_pred: logits `(questions · choices, 1)`.
    """

    from_logits = True

    def call(self, y_true, y_pred):
        choices = y_true.shape[-1]
        labels = ops.reshape(y_true, (-1, choices, choices))[:, 0]
        logits = ops.where(labels < 0, -10000.0, ops.reshape(y_pred, (-1, choices)))
        right = ops.sum(ops.where(labels > 0, logits, 0.0), axis=-1)
        return ops.repeat(ops.logsumexp(logits, axis=-1) - right, choices)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class DistilledLoss(keras.losses.Loss):
    """The mean of losses over the positions that are not masked out.

    Args:
        name: as for any loss.
        reduction: by default the mean over the positions that count.

    Call arguments:
        y_true: 1 at positions that count, 0 at others, `(batch, length)`.
        y_pred: the loss of every position, `(batch, length)`.

    Example:

    >>> import numpy as np
    >>> float(DistilledLoss()(np.array([[1.0, 1.0, 0.0]]), np.array([[2.0, 3.0, 9.0]])))
    2.5
    """

    def __init__(self, name: str = "distilled_loss", reduction: str | None = "mean_with_sample_weight", **kwargs: Any) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None):
        counts = weighted(ops.cast(y_true, self.dtype), sample_weight, self.dtype)
        # Other positions may hold NaN or infinity, which 0 times does not make 0.
        values = ops.where(counts > 0, y_pred, ops.zeros_like(y_pred))
        return mean_over_labels(self, super().__call__(y_true, values, counts), values, counts=counts)

    def call(self, y_true, y_pred):
        return ops.convert_to_tensor(y_pred)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ConditionalRandomFieldLoss(keras.losses.Loss):
    """Negative log-likelihood of sequences of labels, for the outputs of a `ConditionalRandomField`.

        loss = Σ (log Σ_y' exp(score(y')) − score(y)) / labels        over the sequences of a batch and all their labels

    The sequence of a row consists of its labelled positions: masked positions and those with the label -100 are skipped as if they
    did not exist. If all transitions are 0, this is the cross entropy of the labels.

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
        # Keras divides by the number of sequences, not of labels.
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
        before, label, total = carry  # for every label the log-sum over sequences that end with it; the true label; its score
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
