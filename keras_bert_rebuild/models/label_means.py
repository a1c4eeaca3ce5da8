"""The losses that a model reports: means over all labels of an epoch, independent of how they are batched."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.batch_check import concrete

# Replicas of MirroredStrategy are threads.
_NOTES = threading.local()


@contextlib.contextmanager
def noted_means() -> Iterator[list[Any]]:
    """A list of the reports (`note_mean`) of losses that are computed within the context, on this thread."""
    outer = getattr(_NOTES, "now", None)
    notes: list[Any] = []
    _NOTES.now = notes
    try:
        yield notes
    finally:
        _NOTES.now = outer


def note_mean(loss: keras.losses.Loss, mean: Any, count: Any) -> None:
    """Report the mean of a loss and its number of labels to the model that computes it; does nothing outside a model.

    Args:
        loss: the loss.
        mean: the mean over the labels of the batch, a scalar.
        count: the divisor of the sum over the labels: their number, or the sum of their weights.
    """
    notes = getattr(_NOTES, "now", None)
    if notes is not None:
        notes.append((loss, mean, count))


class LabelMeans:
    """The means over labels of one compiled model, which replace Keras's.

    Keras weights the loss of a batch by its number of examples instead of its number of labels, so that the mean over an epoch
    would depend on how examples are batched. Losses that do not report their means are left to Keras.

    Not a `keras.metrics.Metric` itself, which Keras would save in the files of the model.

    Args:
        losses: the loss of every output that has one, by name, in the order in which Keras computes them.
        weights: their weights by name; 1 for missing names.
    """

    def __init__(self, losses: Mapping[str, Any], weights: Mapping[str, float]) -> None:
        self.losses = dict(losses)
        self.weights = [weights.get(name, 1.0) for name in self.losses]
        self.metric = _Sums(len(self.losses) + 1)
        self._noted: set[str] = set()

    @classmethod
    def of_compiled(cls, model: keras.Model, loss: Any, loss_weights: Any) -> "LabelMeans | None":
        """The means of a model, from its `compile` arguments; None if there is not a loss for each output."""
        losses, weights = _by_output(model, loss), _by_output(model, loss_weights)
        return None if not losses or weights is None else cls(losses, weights)

    def update(self, notes: list[Any], added: list[Any], rows: Any) -> None:
        """Add a batch.

        Args:
            notes: the list from `noted_means`.
            added: further losses, such as those of regularisers.
            rows: number of examples in the batch.
        """
        sums = {}
        for loss, mean, count in notes:
            name = next((n for n, own in self.losses.items() if n not in sums and (own is loss or own is type(loss))), None)
            if name is not None:
                sums[name] = mean * ops.cast(count, mean.dtype), count
        if not sums:
            return
        self._noted = set(sums)
        of_added = (sum(ops.sum(loss) for loss in added) * ops.cast(rows, self.metric.dtype), rows) if added else (0, 0)
        totals, counts = zip(*(sums.get(name, (0, 0)) for name in self.losses), of_added, strict=True)
        self.metric.update_state(totals, counts)

    def reported(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Keras's results with our means under the same names: for every output that reported some, and for the sum."""
        results = dict(results)
        if not self._noted:
            return results
        *means, loss = self.metric.means()
        for name, mean, weight in zip(self.losses, means, self.weights, strict=True):
            key = f"{name}_loss"
            if name not in self._noted:
                mean = results[key]
            elif key in results:  # the loss of a single output has no separate name
                results[key] = mean
            loss = loss + mean * weight
        results["loss"] = loss
        return results


class _Sums(keras.metrics.Metric):
    """Sums and their divisors. Its own result is not reported."""

    def __init__(self, size):
        super().__init__(name="label_means")
        self.size = size
        self.sums = self.add_variable((2, size), "zeros", name="sums")

    def update_state(self, totals, counts):
        totals, counts = (ops.stack([ops.cast(part, self.dtype) for part in parts]) for parts in (totals, counts))
        self.sums.assign_add(ops.stop_gradient(ops.stack([totals, counts])))

    def result(self):
        return {}

    def means(self):
        """A list with a mean for every sum; 0 if the divisor is 0."""
        # At the end of an epoch JAX would compile a program for each of these operations; other backends must not wait for a step.
        on_host = concrete(self.sums.value) if traits.compiles_each_shape() else None
        if on_host is not None:
            totals, counts = on_host
            return list(np.divide(totals, counts, out=np.zeros_like(totals), where=counts != 0))
        totals, counts = ops.unstack(ops.convert_to_tensor(self.sums), 2)
        return ops.unstack(ops.divide_no_nan(totals, counts), self.size)


def _by_output(model, values):
    """The values for the outputs of a model, by name, in the order in which Keras visits them.

    Args:
        values: a dictionary, a list or one value for all, as for `compile`.

    Returns:
        A dictionary without None values; None if there is not one value for each output.
    """
    in_dictionary = isinstance(model.output, dict)
    names = sorted(model.output) if in_dictionary else model.output_names
    if not isinstance(values, dict):
        values = values if isinstance(values, (list, tuple)) else [values] * len(names)
        if len(values) != len(names):
            return None
        values = dict(zip(names, values, strict=True))
    elif not in_dictionary:
        values = {name: values.get(name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
