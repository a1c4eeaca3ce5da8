"""What a model reports as its losses: means over all labels of an epoch, however they are batched."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import keras
from keras import ops

# Replicas of MirroredStrategy are threads.
_NOTES = threading.local()


@contextlib.contextmanager
def noted_means() -> Iterator[list[Any]]:
    """A list of what the losses computed inside, on this thread, report with `note_mean`."""
    outer = getattr(_NOTES, "now", None)
    notes: list[Any] = []
    _NOTES.now = notes
    try:
        yield notes
    finally:
        _NOTES.now = outer


def note_mean(loss: keras.losses.Loss, mean: Any, count: Any) -> None:
    """Tell the model that computes a loss what its value is the mean of; does nothing outside a model.

    Args:
        loss: the loss.
        mean: the mean over the labels of the batch, a scalar.
        count: what the sum over the labels was divided by: their number, or the sum of their weights.
    """
    notes = getattr(_NOTES, "now", None)
    if notes is not None:
        notes.append((loss, mean, count))


class LabelMeans:
    """The means over labels of one compiled model, instead of Keras's.

    Keras weights the loss of a batch by its number of examples, whatever the number of labels, so that the mean of an epoch would
    depend on how examples are batched. Losses that do not note their means are left to Keras.

    Not a `keras.metrics.Metric` itself: Keras would then save it in the files of the model.

    Args:
        losses: the loss of every output that has one, by name, in the order in which Keras computes them.
        weights: what they are multiplied with, by name; 1 where a name is missing.
    """

    def __init__(self, losses: Mapping[str, Any], weights: Mapping[str, float]) -> None:
        self.losses = dict(losses)
        self.weights = [weights.get(name, 1.0) for name in self.losses]
        self.metric = _Sums(len(self.losses) + 1)
        self._noted: set[str] = set()

    @classmethod
    def of_compiled(cls, model: keras.Model, loss: Any, loss_weights: Any) -> "LabelMeans | None":
        """The means of a model, from what it is compiled with; None if that is not a loss for each output."""
        losses, weights = _by_output(model, loss), _by_output(model, loss_weights)
        return None if not losses or weights is None else cls(losses, weights)

    def update(self, notes: list[Any], added: list[Any], rows: Any) -> None:
        """Add a batch.

        Args:
            notes: what `noted_means` collected.
            added: losses besides those of the outputs, such as those of regularisers.
            rows: examples of the batch.
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
        """Keras's results with our means under the same names: of every output that noted some, and of the sum."""
        results = dict(results)
        if not self._noted:
            return results
        *means, loss = self.metric.means()
        for name, mean, weight in zip(self.losses, means, self.weights, strict=True):
            key = f"{name}_loss"
            if name not in self._noted:
                mean = results[key]
            elif key in results:  # the loss of a single output has no name of its own
                results[key] = mean
            loss = loss + mean * weight
        results["loss"] = loss
        return results


class _Sums(keras.metrics.Metric):
    """Sums and their divisors. It reports nothing itself."""

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
        """A mean for every sum, as a list; 0 where the divisor is 0."""
        totals, counts = ops.unstack(ops.convert_to_tensor(self.sums), 2)
        return ops.unstack(ops.divide_no_nan(totals, counts), self.size)


def _by_output(model, values):
    """The values for the outputs of a model, by name, in the order in which Keras visits them.

    Args:
        values: a dictionary, a list or one value for all, as `compile` takes them.

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
