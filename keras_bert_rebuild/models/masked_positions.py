"""Labels, predictions and weights at the positions to predict, as functions of arrays that need no model."""

import functools
from typing import Any

from keras import ops

from keras_bert_rebuild.layers import Masked
from keras_bert_rebuild.layers.masks import at_positions


def labelled_positions(masked: Any, ids: Any, padding: Any) -> Any:
    """The labelled positions: those to predict that are not padding.

    Args:
        masked: `(batch, length)`, nonzero at tokens to predict.
        ids: `(batch, length)`, whose value at padding is `padding`.

    Returns:
        `(batch, length)`, true at labels.
    """
    return ops.logical_and(masked != 0, ids != padding)


def put_at_positions(values: Any, labelled: Any, positions: Any, new: Any) -> Any:
    """Replace values at labels, the inverse of `at_positions`.

    Args:
        values: `(batch, length)`.
        labelled: `(batch, length)`, true at labels.
        positions: `(batch, slots)` from `slots_of`, labelled ones first and in order; None for all.
        new: the new values, `(batch, slots)`.

    Returns:
        `(batch, length)`.
    """
    if positions is not None:  # a gather, since scatters are slow on some backends
        slots = ops.cumsum(ops.cast(labelled, "int32"), axis=1) - 1
        new = ops.take_along_axis(new, ops.clip(slots, 0, ops.shape(new)[1] - 1), axis=1)
    return ops.where(labelled, ops.cast(new, values.dtype), values)


def weights_at(weights: Any, labelled: Any, positions: Any) -> Any:
    """A weight for every slot.

    Args:
        weights: `(batch,)` or `(batch, 1)` for examples; `(batch, length)`, optionally with a last axis of 1; or None.
        labelled: `(batch, length)`.
        positions: `(batch, slots)`, or None for all.

    Returns:
        `(batch, slots)`, a new tensor, since Keras multiplies it in place; or None.
    """
    if weights is None:
        return None
    weights = ops.reshape(weights, (-1, 1) if _is_of_examples(weights) else ops.shape(labelled))
    return at_positions(weights * ops.ones_like(labelled, dtype=weights.dtype), positions)


def flat_labels(labels: Any, predictions: Any, counts: Any, weights: Any = None) -> tuple[Any, Any, Any]:
    """Labels and predictions of all examples as separate rows.

    Keras's metrics first average within a row, so a label in a batch of short rows would count more than one in a batch of long
    rows.

    Args:
        labels: `(batch, ...)`, or with further axes, such as those of a distribution.
        predictions: `(batch, ..., classes)`.
        counts: true at labels that count, `(batch, ...)`.
        weights: `(batch,)`, `(batch, ...)` or None.

    Returns:
        Labels `(labels, ...)`; predictions `(labels, classes)`, with a mask of those that count; weights `(labels,)` or None.
    """
    shape = ops.shape(predictions)[:-1]
    if weights is not None:
        if _is_of_examples(weights):
            weights = ops.reshape(weights, (-1, *[1] * (len(shape) - 1)))
        weights = ops.reshape(ops.broadcast_to(weights, shape), (-1,))
    labels = ops.reshape(labels, (-1, *labels.shape[len(shape) :]))
    predictions = ops.reshape(predictions, (-1, predictions.shape[-1]))
    return labels, _masked()([predictions, ops.cast(ops.reshape(counts, (-1,)), "int32")]), weights


def _is_of_examples(weights):
    """Whether there is one weight per example; sizes in a TensorFlow graph may be unknown."""
    return all(size == 1 for size in weights.shape[1:])


@functools.cache
def _masked():
    return Masked()
