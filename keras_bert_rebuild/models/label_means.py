"""The losses that a model reports: means over all labels of an epoch, independent of how they are batched."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.models.named_tensors import by_head
from keras_bert_rebuild.models.running_step import running_step


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
    def from_compiled(cls, model: keras.Model, loss: Any, loss_weights: Any) -> "LabelMeans | None":
        """The means of a model, from its `compile` arguments; None if there is no loss."""
        # The order in which Keras visits them.
        heads = sorted(model.output) if isinstance(model.output, dict) else model.output_names
        losses, weights = (_given(by_head(heads, values, strict=False)) for values in (loss, loss_weights))
        return cls(losses, weights) if losses else None

    def update(self, notes: list[Any], added: list[Any], rows: Any) -> None:
        """Add a batch.

        Args:
            notes: what the losses have reported.
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


class LabelMeansModel(keras.Model):
    """A model whose reported losses are means over all labels of an epoch, if `_label_means` is set when it is compiled."""

    _label_means: LabelMeans | None = None

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return super().metrics if self._label_means is None else [*super().metrics, self._label_means.metric]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss, step = super().compute_loss(x, y, y_pred, sample_weight, training), running_step(self)
        if self._label_means is not None and step is not None:
            # Now, not later: inside a JAX gradient, values can only be returned through the variables of metrics.
            self._label_means.update(step.means, self.losses, ops.shape(keras.tree.flatten(y_pred)[0])[0])
        return loss

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        return results if self._label_means is None else self._label_means.reported(results)


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
        on_host = traits.on_host(self.sums.value) if traits.compiles_each_shape() else None
        if on_host is not None:
            totals, counts = on_host
            return list(np.divide(totals, counts, out=np.zeros_like(totals), where=counts != 0))
        totals, counts = ops.unstack(ops.convert_to_tensor(self.sums), 2)
        return ops.unstack(ops.divide_no_nan(totals, counts), self.size)


def _given(values):
    return {name: value for name, value in values.items() if value is not None}
