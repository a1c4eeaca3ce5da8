"""The loss and the metrics of the head "rtd": which tokens were replaced."""

from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.training.losses import counted, mean_over_labels
from keras_bert_rebuild.training.task_losses import IGNORED


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ReplacedTokenLoss(keras.losses.Loss):
    """Binary cross entropy of every token from its logit; padding and the label -100 are ignored.

        loss = log(1 + exp(logit)) − label · logit

    Args:
        name: as for any loss.
        reduction: by default the mean over the tokens that count.

    Call arguments:
        y_true: `(batch, length)` or `(batch, length, 1)`: 1 for a replaced token, 0 for an original one, -100 for one that does
            not count; give it at padding too, since metrics only ignore that.
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
        if sample_weight is not None:
            given = ops.cast(sample_weight, self.dtype)
            weights = weights * ops.reshape(given, (*ops.shape(given)[:1], -1))  # (batch,) or (batch, length)
        # Without the mask of padding, which Keras would multiply into the weights in place.
        value = super().__call__(y_true, ops.multiply(y_pred, 1.0), weights)
        return mean_over_labels(self, value, y_pred, counts=weights)

    def call(self, y_true, y_pred):
        labels = _labels_of(y_true, y_pred)
        labels = ops.cast(ops.where(labels != IGNORED, labels, 0), y_pred.dtype)
        return ops.binary_crossentropy(labels, y_pred[..., 0], from_logits=True)


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ReplacedTokenAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of tokens whose logit is above 0 if they were replaced, and not above 0 if they were not.

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

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ReplacedTokenShare(keras.metrics.MeanMetricWrapper):
    """The share of tokens that were replaced: a model that always says "original" has an accuracy of 1 minus this.

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

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


def _was_replaced(labels, logits):
    return ops.cast(ops.equal(_labels_of(labels, logits), 1), "float32")


def _is_right(labels, logits):
    return ops.cast(ops.equal(_labels_of(labels, logits), ops.cast(logits[..., 0] > 0, "int32")), "float32")


def _labels_of(labels, logits):
    return ops.reshape(ops.cast(labels, "int32"), ops.shape(logits)[:-1])
