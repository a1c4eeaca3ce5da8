"""Batches of examples of similar length, padded to one of a few lengths."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import BUCKETS, Bucket, EpochBatches, divided, input_arrays, padded
from keras_bert_rebuild.data.random_numbers import Stream, bits, keys


def bucket_batches(
    lengths: npt.ArrayLike, batch_size: int, buckets: npt.ArrayLike = BUCKETS, seed: int | None = None, epoch: int = 0
) -> list[Bucket]:
    """Divide examples into batches.

    Every example goes to the smallest bucket that holds it; examples that do not fill a batch of their bucket move to the next one.
    So there is at most one shape per bucket, and one more for the last, smaller batch of the largest bucket, unless it is filled
    up: see `filling` of `BucketedBatches`.

    Args:
        lengths: tokens of every example, special ones included.
        batch_size: examples per batch.
        buckets: lengths to pad to, in any order.
        seed: seed of the order of examples and batches; None keeps the order of the examples within a bucket, shortest bucket
            first. In either case the first two batches have different lengths if possible.
        epoch: every epoch has another order and the same number of batches.

    Returns:
        A list of `Bucket`.

    Raises:
        ValueError: an example is longer than the largest bucket, or `batch_size` is less than 1.
    """
    lengths, buckets = np.asarray(lengths, "int64"), np.unique(buckets)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}.")
    if len(lengths) and lengths.max() > buckets[-1]:
        longest = int(lengths.argmax())
        actual = f"example {longest} has {lengths[longest]}"
        raise ValueError(f"an example may have at most {buckets[-1]} tokens, the length of the largest bucket; {actual}.")
    order = np.arange(len(lengths)) if seed is None else random_order(seed, epoch, len(lengths), 0)
    bucket_of = np.searchsorted(buckets, lengths[order])
    batches = divided(order[np.argsort(bucket_of, kind="stable")], lengths, buckets, batch_size)
    if seed is not None:
        batches = [batches[i] for i in random_order(seed, epoch, len(batches), 1)]
    return _two_lengths_first(batches)


def original_order(batches, results):
    """Put the results of batches back into the order of the examples.

    Args:
        batches: the batches, see `bucket_batches`.
        results: the results of all batches, concatenated as by `predict`, or a list with the results of every batch, whose
            lengths may differ.

    Returns:
        An array, or a list with the result of every example.

    Raises:
        ValueError: there are fewer or more results than examples.
    """
    indexes = np.concatenate([batch.indexes for batch in batches])
    if isinstance(results, list):
        results = [row for of_batch in results for row in np.asarray(of_batch)]
    if len(results) != len(indexes):
        raise ValueError(f"expected one result for each of {len(indexes)} examples; got {len(results)}.")
    order = np.argsort(indexes, kind="stable")
    return [results[i] for i in order] if isinstance(results, list) else np.asarray(results)[order]


class BucketedBatches(EpochBatches):
    """Batches of encoded sequences for `fit`, `evaluate` and `predict`, each padded to the smallest bucket that holds it.

    Args:
        inputs: for every input of the model a list of integer sequences; the lengths are those of the first input.
        labels: a label per example; with `label_padding` a sequence of integers per example. None for no labels.
        batch_size, buckets, seed: see `bucket_batches`; with `seed=None`, `restore` returns results in the order of the inputs.
        padding: the padding value of every input, or one number for all.
        label_padding: the padding value of label sequences.
        group: number of consecutive examples that stay in one batch, such as 2 for the texts of a pair; `batch_size` then counts
            groups.
        filling: a label that the loss ignores. The smaller batch at the end of an epoch of several is then filled up with its own
            examples, which have this label, so that it has the shape of others. None leaves it smaller.
        **kwargs: see `EpochBatches`.

    Raises:
        ValueError: inputs or labels differ in number, or an example is longer than the largest bucket.
    """

    def __init__(
        self,
        inputs: Sequence[Sequence[Any]],
        labels: Sequence[Any] | None = None,
        batch_size: int = 32,
        buckets: npt.ArrayLike = BUCKETS,
        seed: int | None = None,
        padding: Any = 0,
        label_padding: float | None = None,
        group: int = 1,
        filling: int | None = None,
        **kwargs: Any,
    ) -> None:
        counts = [len(sequences) for sequences in inputs] + ([] if labels is None else [len(labels)])
        if len(set(counts)) != 1 or not counts[0]:
            raise ValueError(f"inputs and labels must have the same number of examples, at least one; got {counts}.")
        super().__init__(**kwargs)
        self.inputs, self.labels = inputs, labels
        self.padding = [padding] * len(inputs) if np.isscalar(padding) else list(padding)
        self.label_padding = label_padding
        self.seed = seed
        self.group = group
        self.filling = filling
        lengths = np.array([len(sequence) for sequence in inputs[0]]).reshape(-1, group).max(axis=1)
        self._plan = lengths, batch_size, buckets, seed
        self._rows = batch_size * group
        self._kept: tuple[Any, Any] = None, None
        self._count = len(self.batches(self.epoch))

    def batches(self, epoch: int) -> list[Bucket]:
        """The `Bucket`s of an epoch."""
        kept = self._kept  # another thread may be in another epoch
        if kept[0] != epoch:
            self._kept = kept = epoch, bucket_batches(*self._plan, epoch)
        return kept[1]

    def __len__(self) -> int:
        return self._count

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        groups, length = self.batches(epoch)[index]
        indexes = (groups[:, None] * self.group + np.arange(self.group)).ravel()
        count = len(indexes)
        if self.filling is not None and self._count > 1:
            indexes = np.resize(indexes, self._rows)  # repeated
        pick = lambda examples: [examples[i] for i in indexes]  # noqa: E731
        x = input_arrays([pick(sequences) for sequences in self.inputs], length, self.padding)
        if self.labels is None:
            return (x,)
        selected = pick(self.labels)
        selected[count:] = [np.full_like(label, self.filling) for label in selected[count:]]
        return x, np.asarray(selected) if self.label_padding is None else padded(selected, length, self.label_padding)

    def restore(self, results: Any) -> Any:
        """Results of all batches in the order of the inputs: see `original_order`."""
        if self.seed is not None:
            raise ValueError(f"restore needs seed=None, so that every epoch has the same batches; got seed {self.seed}.")
        return original_order(self.batches(0), results)


def _two_lengths_first(batches):
    """Move a batch of another length to index 1: for TensorFlow, Keras infers from the first two batches which axes vary."""
    other = next((i for i, batch in enumerate(batches) if batch.length != batches[0].length), None)
    return batches if other is None else [batches[0], batches[other], *batches[1:other], *batches[other + 1 :]]


def random_order(seed, epoch, count, counter=0):
    """The numbers below `count` in the order of an epoch; each `counter` gives another order."""
    return np.argsort(bits(keys(seed, epoch, np.arange(count)), counter, Stream.ORDER), kind="stable")
