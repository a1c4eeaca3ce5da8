"""Batches of groups of rows that belong together: the texts of a pair, the choices of a question."""

import numpy as np

from keras_bert_rebuild.data.length_buckets import PlannedBatches, padded


class GroupedBatches(PlannedBatches):
    """Batches for `fit` and `evaluate` whose rows come in groups, each batch padded to the least bucket that holds it.

    Args:
        inputs: for every input of the model a list of rows; the rows of a group stand one behind the other.
        labels: a label for every row, `(rows, ...)`.
        group: rows of a group.
        batch_size: groups of a batch.
        buckets, seed: as of `bucket_batches`.
        padding: for every input what it is filled up with.
        **kwargs: as of `EpochBatches`.
    """

    def __init__(self, inputs, labels, *, group, batch_size, buckets, seed=None, padding, **kwargs):
        lengths = np.array([len(row) for row in inputs[0]]).reshape(-1, group).max(1)
        super().__init__(lengths, batch_size, buckets, seed, **kwargs)
        self.inputs, self.labels, self.group, self.padding = inputs, labels, group, padding

    def batch(self, epoch, index):
        groups, length = self.batches(epoch)[index]
        rows = (np.asarray(groups)[:, None] * self.group + np.arange(self.group)).ravel()
        x = tuple(padded([values[i] for i in rows], length, pad) for values, pad in zip(self.inputs, self.padding, strict=True))
        return x if len(x) > 1 else x[0], self.labels[rows]
