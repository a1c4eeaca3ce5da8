"""Batches of queries, each with a list of texts to rank, part of which is sampled again in every epoch."""

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import BUCKETS, Bucket, EpochBatches, input_arrays
from keras_bert_rebuild.data.labelled.length_buckets import bucket_batches
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, uniform

# A query and its texts: the index of the query; the indices of its texts, of which the first is used in every epoch; their labels;
# and the indices of texts that may not be sampled for it, None if there is no pool.
Candidates = namedtuple("Candidates", ["query", "texts", "labels", "excluded"])

# The lists of an epoch: for every text its index, its label, and 1, or 0 for padding, each `(lists, list_size)`.
Drawn = namedtuple("Drawn", ["texts", "labels", "counts"])


class CandidateBatches(EpochBatches):
    """Batches of queries with lists of texts, for `fit` and `evaluate`; the rows of a list are consecutive.

    All lists have the same number of rows. From a longer list, the first text and a random sample of the others are used, a new
    sample in every epoch. A shorter list is filled with texts sampled from the pool, with label 0, then with padding. A batch is a
    function of seed, epoch and index.

    Args:
        candidates: a list of `Candidates`.
        list_size: rows of a list.
        pool: the indices of the texts that may be sampled; empty to sample none.
        lengths: a function from arrays of query and text indices to the number of tokens of each pair.
        rows: a function from the same arrays to the rows, one list per input of the model.
        padding: the padding value of every input.
        batch_size: lists per batch.
        buckets: lengths to pad to, as for `bucket_batches`.
        seed: seed of order and sampling; None keeps the order of the lists, shortest bucket first.
        **kwargs: see `EpochBatches`.
    """

    def __init__(
        self,
        candidates: Sequence[Candidates],
        list_size: int,
        pool: npt.ArrayLike,
        lengths: Callable[[npt.NDArray, npt.NDArray], npt.NDArray],
        rows: Callable[[npt.NDArray, npt.NDArray], Sequence[Sequence[Any]]],
        padding: Sequence[float],
        batch_size: int = 32,
        buckets: npt.ArrayLike = BUCKETS,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not candidates:
            raise ValueError("expected at least one query with its texts; got none.")
        super().__init__(**kwargs)
        self.candidates, self.list_size, self.pool = candidates, list_size, np.asarray(pool, "int64")
        self.lengths, self.rows, self.padding = lengths, rows, list(padding)
        self.batch_size, self.buckets, self.seed = batch_size, buckets, seed
        self._queries = np.array([one.query for one in candidates], "int64")
        self._kept: tuple[Any, Any, Any] = None, None, None
        self._count = -(-len(candidates) // batch_size)

    def batches(self, epoch: int) -> list[Bucket]:
        """The `Bucket`s of an epoch, with indices of lists."""
        return self._epoch(epoch)[2]

    def drawn(self, epoch: int) -> Drawn:
        """The lists of an epoch."""
        return self._epoch(epoch)[1]

    def __len__(self) -> int:
        return self._count

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        _, drawn, batches = self._epoch(epoch)
        lists, length = batches[index]
        rows = self.rows(np.repeat(self._queries[lists], self.list_size), drawn.texts[lists].ravel())
        labels = np.stack([drawn.labels[lists].ravel(), drawn.counts[lists].ravel()], axis=1)
        return input_arrays(rows, length, self.padding), labels

    def _epoch(self, epoch):
        kept = self._kept  # another thread may be in another epoch
        if kept[0] != epoch:
            drawn = self._draw(epoch)
            sizes = self.lengths(np.repeat(self._queries, self.list_size), drawn.texts.ravel())
            sizes = sizes.reshape(-1, self.list_size).max(axis=1)
            self._kept = kept = epoch, drawn, bucket_batches(sizes, self.batch_size, self.buckets, self.seed, epoch)
        return kept

    def _draw(self, epoch):
        count, size = len(self.candidates), self.list_size
        of_list = keys(self.seed or 0, epoch, np.arange(count))
        chosen = uniform(of_list, max(len(one.texts) for one in self.candidates), Stream.MEMBERS)
        drawn = self.pool[_draws(of_list, len(self.pool), size)]
        texts = np.repeat(np.array([one.texts[0] for one in self.candidates], "int64")[:, None], size, axis=1)
        labels, counts = np.zeros((count, size), "float32"), np.zeros((count, size), "float32")
        for i, one in enumerate(self.candidates):
            taken = np.arange(len(one.texts))
            if len(taken) > size:
                taken = np.append(0, np.sort(1 + np.argsort(chosen[i, 1 : len(taken)], kind="stable")[: size - 1]))
            own = [one.texts[k] for k in taken]
            if len(own) < size and len(self.pool):
                out = {*own, *(one.excluded or ())}
                others = dict.fromkeys(number for number in drawn[i].tolist() if number not in out)
                own += list(others)[: size - len(own)]
            texts[i, : len(own)] = own
            labels[i, : len(taken)] = [one.labels[k] for k in taken]
            counts[i, : len(own)] = 1
        return Drawn(texts, labels, counts)


def _draws(of_list, n, wanted):
    """Random numbers below `n` for every list: a permutation of all if `n` is small, else somewhat more than needed."""
    if n <= 4 * wanted + 16:
        return np.argsort(uniform(of_list, n, Stream.SAMPLE), axis=1, kind="stable")
    return below(uniform(of_list, 2 * wanted + 8, Stream.SAMPLE), n)
