"""The losses and metrics of the pretraining heads, from logits, as means over labels rather than rows."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild import kernels
from keras_bert_rebuild.models.running_step import note_mean

# The label of positions that a loss ignores.
IGNORED = -100


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class PretrainingLoss(keras.losses.Loss):
    """Cross entropy of the correct token or class, from logits, in float32.

        loss = log Σ_v exp(logits[v]) − logits[label]

    `PretrainingModel` reads the attributes `takes_logits`, `max_predictions` and `chunk` of a compiled loss
    (`models/loss_protocols.py`). No other model does: its heads output probabilities, and the loss needs `from_logits=False`.

    Args:
        max_predictions: for the MLM head, the number of positions per example that are projected onto the vocabulary; None for
            all.
        chunk: for the MLM head, the number of positions of the batch that are projected onto the vocabulary at once, and recomputed
            in the backward pass; None for all. The loss then gets log-probabilities and is −logits[label].
        reduction: by default the mean over the labelled positions.
        from_logits: False for probabilities, clipped to at least 1e-37: the loss is −log p[label].

    Call arguments:
        y_true: labels, `(batch, length)` for tokens and `(batch,)` for classes, or the same with a last axis of 1.
        y_pred: logits, `(batch, length, vocabulary)` or `(batch, classes)`; with `chunk` log-probabilities; or probabilities.

    Raises:
        ValueError: `max_predictions` or `chunk` is less than 1, or given with `from_logits=False`.

    Example:

    >>> import numpy as np
    >>> round(float(PretrainingLoss()(np.array([1]), np.array([[40.0, 0.0]]))), 6)
    40.0

    Reference: Devlin et al., 2019, section 3.1 and appendix A.2; `max_predictions_per_seq` of google-research/bert.
    """

    def __init__(
        self,
        max_predictions: int | None = None,
        name: str = "pretraining_loss",
        reduction: str | None = "sum_over_batch_size",
        *,
        chunk: int | None = None,
        from_logits: bool = True,
        **kwargs: Any,
    ) -> None:
        if max_predictions is not None and max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1, or None for all positions; got {max_predictions}.")
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk must be at least 1 position, or None for all at once; got {chunk}.")
        if not from_logits and (max_predictions, chunk) != (None, None):
            raise ValueError(f"max_predictions and chunk are for a loss from logits; got {max_predictions} and {chunk}.")
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.takes_logits = self.from_logits = from_logits
        self.max_predictions = max_predictions
        self.chunk = chunk

    def __call__(self, y_true, y_pred, sample_weight=None):
        return mean_over_labels(self, super().__call__(y_true, y_pred, sample_weight), y_pred, sample_weight)

    def call(self, y_true, y_pred):
        if not self.from_logits:
            return -ops.log(ops.maximum(ops.cast(-cross_entropy(y_true, y_pred), "float32"), 1e-37))
        if self.chunk is not None:
            return cross_entropy(y_true, y_pred)
        return ops.sparse_categorical_crossentropy(_class_labels(y_true, y_pred), y_pred, from_logits=True)

    def get_config(self):
        own = {"max_predictions": self.max_predictions, "chunk": self.chunk, "from_logits": self.from_logits}
        return {**super().get_config(), **own}


class _Ones(keras.losses.Loss):
    """A loss of 1 everywhere, from which Keras computes the mask; on JAX tensors have no mask attribute."""

    def call(self, y_true, y_pred):
        return ops.ones(ops.shape(y_pred)[:-1], self.dtype)


_ONES = _Ones(reduction=None)


def counted(y_pred: Any, sample_weight: Any = None) -> Any:
    """Keras's loss weights of predictions `(batch, ..., classes)`: `(batch, ...)`, 0 at masked positions."""
    return _ONES(y_pred, y_pred, sample_weight)


def mean_over_labels(loss: keras.losses.Loss, value: Any, y_pred: Any, sample_weight: Any = None, counts: Any = None) -> Any:
    """Tell the model the weight of a loss value in the mean; on a replica, scale it to its part of the mean over all labels.

    Args:
        loss: the loss.
        value: its value from Keras.
        y_pred, sample_weight: the arguments of the loss.
        counts: the weight of every label, `(batch, ...)`; None for 1, or 0 at masked positions.

    Returns:
        The value to train with. On one device, and if the loss is not a mean, it is unchanged.
    """
    if loss.reduction in (None, "none", "sum"):
        return value
    if loss.reduction == "mean_with_sample_weight" and sample_weight is not None:
        counts = counted(y_pred, sample_weight)
    elif counts is None:
        counts = counted(y_pred)
    value, mean, count = kernels.mean_over_replicas(value, ops.sum(counts))
    note_mean(loss, mean, count)
    return value


def weighted(counts, sample_weight, dtype):
    """The weights of positions `(batch, length)`, times those of samples, `(batch,)` or `(batch, length)`, if there are any."""
    if sample_weight is None:
        return counts
    weights = ops.cast(sample_weight, dtype)
    return counts * ops.reshape(weights, (*ops.shape(weights)[:1], -1))


class LabelMetric(keras.metrics.MeanMetricWrapper):
    """The mean of a function of labels and outputs, which the class and not its config determines. Abstract."""

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Perplexity(LabelMetric):
    """The exponential of the mean cross entropy over all labelled positions.

        perplexity = exp(−mean log p[label])

    It takes log-probabilities, which `PretrainingModel` passes to the metrics of a head if all of them have a true attribute
    `takes_logits`. Certainty has a perplexity of 1, a uniform guess that of the size of the vocabulary. All positions of all
    batches count equally.

    Args:
        name, dtype: as for any metric.

    Example:

    >>> import numpy as np
    >>> metric = Perplexity()
    >>> metric.update_state(np.array([0, 2]), np.log([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]))
    >>> round(float(metric.result()), 4)
    2.0
    """

    takes_logits = True
    takes_log_probabilities = True

    def __init__(self, name: str = "perplexity", dtype: Any = None) -> None:
        super().__init__(fn=cross_entropy, name=name, dtype=dtype)
        self._direction = "down"

    def result(self) -> Any:
        return ops.exp(super().result())


def cross_entropy(labels, log_probabilities):
    """−log p[label], of labels `(...)` or `(..., 1)` and log-probabilities `(..., classes)`."""
    labels = _class_labels(labels, log_probabilities)
    return -ops.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]


def _class_labels(labels, outputs):
    # Unlabelled positions may have any label, such as -100: their weight is 0, but their loss must be finite.
    return ops.clip(_labels_of(labels, outputs), 0, outputs.shape[-1] - 1)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ReplacedTokenLoss(keras.losses.Loss):
    """Binary cross entropy of every token from its logit; padding and the label -100 are ignored.

        loss = log(1 + exp(logit)) − label · logit

    Args:
        name: as for any loss.
        reduction: by default the mean over the tokens that count.

    Call arguments:
        y_true: `(batch, length)` or `(batch, length, 1)`: 1 for a replaced token, 0 for an original one, -100 for an ignored one;
            label padding with -100 too, since metrics ignore nothing else.
        y_pred: logits, `(batch, length, 1)`.

    Example:

    >>> import numpy as np
    >>> round(float(ReplacedTokenLoss()(np.array([[0, 1, -100]]), np.array([[[0.0], [9.0], [9.0]]]))), 4)
    0.3466

    Reference: Clark et al., 2020, section 2 (https://arxiv.org/abs/2003.10555).
    """

    from_logits = True
    ignored = IGNORED

    def __init__(self, name: str = "replaced_token_loss", reduction: str | None = "mean_with_sample_weight", **kwargs: Any) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

    def __call__(self, y_true, y_pred, sample_weight=None):
        weights = counted(y_pred) * ops.cast(_labels_of(y_true, y_pred) != IGNORED, self.dtype)
        weights = weighted(weights, sample_weight, self.dtype)
        # Without the mask of padding, which Keras would multiply into the weights in place.
        value = super().__call__(y_true, ops.multiply(y_pred, 1.0), weights)
        return mean_over_labels(self, value, y_pred, counts=weights)

    def call(self, y_true, y_pred):
        labels = _labels_of(y_true, y_pred)
        labels = ops.cast(ops.where(labels != IGNORED, labels, 0), y_pred.dtype)
        return ops.binary_crossentropy(labels, y_pred[..., 0], from_logits=True)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ReplacedTokenAccuracy(LabelMetric):
    """The accuracy of the prediction "replaced", made where the logit is above 0.

    Args:
        name, dtype: as for any metric.

    Example:

    >>> import numpy as np
    >>> metric = ReplacedTokenAccuracy()
    >>> metric.update_state(np.array([[0, 1]]), np.array([[[0.4], [0.2]]]))
    >>> float(metric.result())
    0.5
    """

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(fn=_is_right, name=name, dtype=dtype)
        self._direction = "up"


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ReplacedTokenShare(LabelMetric):
    """The fraction of tokens that were replaced: always predicting "original" has an accuracy of 1 minus this.

    Args:
        name, dtype: as for any metric.

    Example:

    >>> import numpy as np
    >>> metric = ReplacedTokenShare()
    >>> metric.update_state(np.array([[0, 1]]), np.array([[[0.4], [0.2]]]))
    >>> float(metric.result())
    0.5
    """

    def __init__(self, name: str = "replaced", dtype: Any = None) -> None:
        super().__init__(fn=_was_replaced, name=name, dtype=dtype)


def _was_replaced(labels, logits):
    return ops.cast(ops.equal(_labels_of(labels, logits), 1), "float32")


def _is_right(labels, logits):
    return ops.cast(ops.equal(_labels_of(labels, logits), ops.cast(logits[..., 0] > 0, "int32")), "float32")


def _labels_of(labels, logits):
    return ops.reshape(ops.cast(labels, "int32"), ops.shape(logits)[:-1])
