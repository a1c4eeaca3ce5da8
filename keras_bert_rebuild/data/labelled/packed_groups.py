"""Batches of groups of texts, such as a query, its positive and negatives, packed into rows of one length."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.batches import Bucket, EpochBatches, least_length
from keras_bert_rebuild.data.labelled.length_buckets import random_order
from keras_bert_rebuild.data.packing import packed_places

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
