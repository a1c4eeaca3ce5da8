"""Batches of groups of texts: a query, its positive and negatives in packed rows, and a query with a list of texts to rank."""

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import BUCKETS, Bucket, EpochBatches, input_arrays, least_length
from keras_bert_rebuild.data.labelled.length_buckets import bucket_batches, random_order
from keras_bert_rebuild.data.packing import packed_places
from keras_bert_rebuild.data.random_numbers import Stream, below, keys, uniform

# The number of rows is rounded up to one of about this many values between consecutive powers of two.
STEPS = 8


class PackedGroups(EpochBatches):
    """Batches of groups for a `vector_model`. A batch has random groups, never chosen by length.

    A text is a sequence of tokens; several texts share a row of the batch, packed greedily into few rows, so that a query of twelve
    tokens is not padded to the two hundred of a passage. A batch is a function of seed, epoch and index.

    Args:
        texts: the token ids of every text.
        groups: the indices of the texts of every group, padded with -1, `(examples, texts per group)`.
        targets: a function from the indices of the groups of a batch, `(groups,)`, to the targets.
        batch_size: groups per batch; the last batch of an epoch may have fewer.
        lengths: lengths of rows, ascending; the last holds every text. Packed batches have the last; if every row holds a single
            text, a batch has the smallest that holds its longest text.
        seed: seed of the order, which changes every epoch; None keeps the given order.
        pad_id: the id of the padding token.
        segments: the segment ids of every text; None if the model has no segment input.
        packed: False for one text per row.
        multiple: the number of rows is a multiple of this, such as the rows of a chunk.
        few_shapes: round the number of rows up to one of few values.
        drop_last: skip the last batch if it has fewer groups.
        **kwargs: see `EpochBatches`.

    Raises:
        ValueError: `batch_size` is less than 1, a text is too long, or there is no batch.
    """

    def __init__(
        self,
        texts: Sequence[npt.NDArray[np.int32]],
        groups: npt.NDArray[np.int64],
        targets: Callable[[npt.NDArray[np.int64]], Any],
        batch_size: int,
        lengths: Sequence[int],
        seed: int | None = None,
        *,
        pad_id: int = 0,
        segments: Sequence[npt.NDArray[np.int32]] | None = None,
        packed: bool = True,
        multiple: int = 1,
        few_shapes: bool = False,
        drop_last: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sizes = np.array([len(text) for text in texts], "int64")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {batch_size}.")
        if self.sizes.max(initial=0) > lengths[-1]:
            raise ValueError(f"a text may have at most {lengths[-1]} tokens; text {self.sizes.argmax()} has {self.sizes.max()}.")
        # What the model gets for every token of all texts, and for padding.
        self.inputs = [(np.concatenate(texts).astype("int32"), pad_id)]
        if segments is not None:
            self.inputs.append((np.concatenate(segments).astype("int32"), 0))
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.groups, self.targets, self.batch_size, self.lengths, self.seed = groups, targets, batch_size, list(lengths), seed
        self.packed, self.multiple, self.few_shapes, self.drop_last = packed, multiple, few_shapes, drop_last
        # The maximum number of texts in a row, the same for all batches, so that they have few shapes.
        self.texts_of_row = max(1, lengths[-1] // max(1, int(self.sizes.min(initial=lengths[-1])))) if packed else 1
        self._kept: tuple[Any, Any] = None, None
        if not len(self):
            raise ValueError(f"expected at least one batch of {batch_size} groups; got {len(groups)} groups.")

    def __len__(self) -> int:
        return len(self.groups) // self.batch_size if self.drop_last else -(-len(self.groups) // self.batch_size)

    def batches(self, epoch: int) -> list[Bucket]:
        """The `Bucket`s of an epoch: the indices of the groups of every batch, and the length of its longest text."""
        kept = self._kept  # another thread may be in another epoch
        if kept[0] != epoch:
            count = len(self.groups)
            order = np.arange(count) if self.seed is None else random_order(self.seed, epoch, count)
            parts = [order[first : first + self.batch_size] for first in range(0, len(self) * self.batch_size, self.batch_size)]
            self._kept = kept = epoch, [Bucket(part, int(self._sizes_of(self.groups[part]).max())) for part in parts]
        return kept[1]

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        examples, longest = self.batches(epoch)[index]
        numbers = self.groups[examples]
        there = (numbers >= 0) & (self.sizes[numbers] > 0)  # without special tokens, a text may have no tokens
        flat = numbers[there]
        length = self.lengths[-1] if self.packed else least_length(self.lengths, longest)
        rows, columns, slots, count = packed_places(self.sizes[flat], length) if self.packed else _one_a_row(len(flat))
        *inputs, marks, begins = self._laid_out(flat, rows, columns, slots, length, self._rounded(count))
        order = np.full(numbers.shape, -1, "int32")
        order[there] = rows * self.texts_of_row + slots
        return (*inputs, marks, begins, order), self.targets(examples)

    def _laid_out(self, texts, rows, columns, slots, length, count):
        """Ids, segments if the model has them, and text numbers of the rows `(count, length)`; and 1 + the first column of every
        text `(count, texts per row)`."""
        begins = np.zeros((count, self.texts_of_row), "int32")
        begins[rows, slots] = columns + 1
        sizes = self.sizes[texts]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        at = np.repeat(rows * length + columns, sizes) + within
        of_texts = np.repeat(self.starts[texts], sizes) + within
        of_tokens = [(values[of_texts], padding) for values, padding in self.inputs]
        laid_out = []
        for values, padding in (*of_tokens, (np.repeat(columns + 1, sizes), 0)):
            laid_out.append(np.full((count, length), padding, "int32"))
            laid_out[-1].ravel()[at] = values
        return *laid_out, begins

    def _rounded(self, rows):
        """The smallest allowed number of rows that is at least `rows`."""
        rows = max(rows, 1)
        if self.few_shapes:
            step = max(1, (1 << (rows - 1).bit_length()) // (2 * STEPS))
            rows = -(-rows // step) * step
        return int(-(-rows // self.multiple) * self.multiple)

    def _sizes_of(self, numbers):
        return np.where(numbers >= 0, self.sizes[numbers], 0)


def _one_a_row(count):
    zeros = np.zeros(count, "int64")
    return np.arange(count), zeros, zeros, count


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
        selected = uniform(of_list, max(len(one.texts) for one in self.candidates), Stream.MEMBERS)
        drawn = self.pool[_draws(of_list, len(self.pool), size)]
        texts = np.repeat(np.array([one.texts[0] for one in self.candidates], "int64")[:, None], size, axis=1)
        labels, counts = np.zeros((count, size), "float32"), np.zeros((count, size), "float32")
        for i, one in enumerate(self.candidates):
            taken = np.arange(len(one.texts))
            if len(taken) > size:
                taken = np.append(0, np.sort(1 + np.argsort(selected[i, 1 : len(taken)], kind="stable")[: size - 1]))
            own = [one.texts[k] for k in taken]
            if len(own) < size and len(self.pool):
                out = {*own, *(one.excluded or ())}
                further = dict.fromkeys(number for number in drawn[i].tolist() if number not in out)
                own += list(further)[: size - len(own)]
            texts[i, : len(own)] = own
            labels[i, : len(taken)] = [one.labels[k] for k in taken]
            counts[i, : len(own)] = 1
        return Drawn(texts, labels, counts)


def _draws(of_list, n, wanted):
    """Random numbers below `n` for every list: a permutation of all if `n` is small, else somewhat more than needed."""
    if n <= 4 * wanted + 16:
        return np.argsort(uniform(of_list, n, Stream.SAMPLE), axis=1, kind="stable")
    return below(uniform(of_list, 2 * wanted + 8, Stream.SAMPLE), n)
