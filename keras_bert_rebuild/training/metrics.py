"""Metrics of pretraining that are computed from logits."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class Perplexity(keras.metrics.MeanMetricWrapper):
    """The exponential of the mean cross entropy over all labelled positions.

        perplexity = exp(−mean log p[label])

    It takes log-probabilities, which `PretrainingModel` passes to the metrics of a head if all of them have a true attribute
    `takes_logits`. 1 is certainty; the size of the vocabulary is a uniform guess. Every position counts equally, in whatever batch
    it is.

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

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


def cross_entropy(labels, log_probabilities):
    """−log p[label], of labels `(...)` or `(..., 1)` and log-probabilities `(..., classes)`."""
    labels = ops.reshape(ops.cast(labels, "int32"), ops.shape(log_probabilities)[:-1])
    # Unlabelled positions may have any value; their weight is 0, and their loss must only be finite.
    labels = ops.clip(labels, 0, log_probabilities.shape[-1] - 1)
    return -ops.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]
