"""Labels one behind the other, for metrics."""

import functools
import math

from keras import ops

from keras_bert_rebuild.layers import Masked


def flat_labels(labels, answers, counts, weights=None):
    """Labels and predictions as rows of their own, whatever example they are of.

    Keras's metrics take a mean in every row first: they would count a label of a batch of short rows for more than one of a batch
    of long rows.

    Args:
        labels: `(batch, ...)`, or with further axes, such as those of a distribution.
        answers: predictions `(batch, ..., classes)`.
        counts: where a label counts, `(batch, ...)`.
        weights: `(batch,)`, `(batch, ...)` or None.

    Returns:
        Labels `(labels, ...)`; predictions `(labels, classes)` with the mask of those that count; weights `(labels,)` or None.
    """
    places = ops.shape(answers)[:-1]
    if weights is not None:
        if math.prod(weights.shape[1:]) == 1:
            weights = ops.reshape(weights, (-1, *[1] * (len(places) - 1)))
        weights = ops.reshape(ops.broadcast_to(weights, places), (-1,))
    labels, answers = ops.reshape(labels, (-1, *labels.shape[len(places) :])), ops.reshape(answers, (-1, answers.shape[-1]))
    return labels, _masked()([answers, ops.cast(ops.reshape(counts, (-1,)), "int32")]), weights


@functools.cache
def _masked():
    return Masked()
