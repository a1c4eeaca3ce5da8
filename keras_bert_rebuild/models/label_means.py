"""What a model reports as its losses: means over all labels of an epoch, however these lie in batches."""

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
    """A list of what the losses that are computed inside, on this thread, say with `note_mean`."""
    outer = getattr(_NOTES, "now", None)
    notes: list[Any] = []
    _NOTES.now = notes
    try:
        yield notes
    finally:
        _NOTES.now = outer


def note_mean(loss: keras.losses.Loss, mean: Any, count: Any) -> None:
    """Tell the model that computes a loss what its value is the mean of; where no model does, nothing happens.

    Args:
        loss: the loss.
        mean: the mean over the labels of the batch, a scalar.
        count: what the sum over the labels was divided by: how many they are, or the sum of their weights.
    """
    notes = getattr(_NOTES, "now", None)
    if notes is not None:
        notes.append((loss, mean, count))


class LabelMeans:
    """The means over labels of one compiled model, in the place of Keras's.

    Keras weighs the loss of a batch by its examples, whatever number of labels it is the mean of, so that the mean of an epoch
    would depend on how examples lie in batches. Losses that do not note their means are left to Keras.

    Not a `keras.metrics.Metric` itself: Keras would write it into the files of the model that has it.

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
        """Those of a model, from what it is compiled with; None where that is not a loss for each output."""
        losses, weights = _by_output(model, loss), _by_output(model, loss_weights)
        return None if not losses or weights is None else cls(losses, weights)

    def update(self, notes: list[Any], added: list[Any], rows: Any) -> None:
        """Take up a batch.

        Args:
            notes: what `noted_means` gave.
            added: what comes to the losses of the outputs, of regularisers for one.
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
        """Keras's results with our means under the same names: of every output that noted some, and of the whole."""
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
    """Sums and what to divide them by. It reports nothing by itself."""

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
        """A mean for every sum, as a list; 0 where there is nothing to divide by."""
        totals, counts = ops.unstack(ops.convert_to_tensor(self.sums), 2)
        return ops.unstack(ops.divide_no_nan(totals, counts), self.size)


def _by_output(model, values):
    """What there is for the outputs of a model, by name, in the order in which Keras goes through them.

    Args:
        values: a dictionary, a list or one value for all, as `compile` takes them.

    Returns:
        A dictionary, without what is None; None if the values are not one for each output.
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
