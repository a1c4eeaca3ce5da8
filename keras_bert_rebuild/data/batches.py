"""Batches of rows of similar length, padded to one of a few lengths, epoch after epoch: used for training and prediction.

A backend that compiles a program per length gets a few lengths, chosen for the texts.
"""

import bisect
import itertools
import math
from collections import namedtuple
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.data.random_numbers import Stream, uniform_at

# Maximum number of lengths of one kind of batch; each is a program to compile.
MOST = 5

# Minimum number of rows whose lengths are representative of those to come.
ENOUGH = 256


def few_lengths(longest):
    """At most `MOST` lengths up to the longest, roughly geometric from 16, multiples of 8.

    Example:

    >>> few_lengths(512), few_lengths(40), few_lengths(12)
    ([16, 40, 96, 216, 512], [16, 24, 32, 40], [12])
    """
    if longest <= 16:
        return [longest]
    ratio = (longest / 16) ** (1 / (MOST - 1))
    steps = {math.ceil(round(16 * ratio**step, 6) / 8) * 8 for step in range(MOST - 1)}
    return [*sorted(step for step in steps if step < longest), longest]


def candidates(longest):
    """The lengths to choose from: 8, 12, 16, 24, 32, 48 and so on, so that programs compiled for other texts are reused."""
    lengths = (base << double for double in range(longest.bit_length()) for base in (8, 12))
    return [*sorted(length for length in lengths if length < longest), longest]


def chosen_lengths(sizes, longest, most=MOST, price=0):
    """The lengths with the least padding for rows of these sizes, followed by lengths for longer rows.

    Args:
        sizes: tokens of every row, an array; if there are fewer than `ENOUGH` rows and no price, the result is
            `few_lengths(longest)`.
        longest: the longest row that may come, and the last of the lengths.
        most: maximum number of lengths for the given rows.
        price: cost of a length, in tokens that could be computed in the time it takes to compile its program.

    Returns:
        A list of at most `most` of `candidates`, ascending; if longer rows may come, further lengths follow, each twice the
        previous one, since a program is only compiled when a row needs it.

    Example:

    >>> chosen_lengths([10] * 500 + [30] * 500, 100, most=2)
    [12, 32, 64, 100]
    >>> chosen_lengths([10] * 500 + [30] * 500, 32, price=20_000)
    [32]
    """
    if len(sizes) < ENOUGH and not price:
        return few_lengths(longest)
    sizes, allowed = np.sort(sizes), candidates(longest)
    *smaller, last = allowed[: bisect.bisect_left(allowed, sizes[-1]) + 1]
    rows = {length: int(np.searchsorted(sizes, length, "right")) for length in (0, *smaller, last)}  # rows of at most this length

    def tokens(lengths):
        computed = sum((rows[length] - rows[shorter]) * length for shorter, length in itertools.pairwise((0, *lengths)))
        return computed + price * len(lengths)

    subsets = itertools.chain.from_iterable(itertools.combinations(smaller, count) for count in range(most))
    lengths = list(min(((*subset, last) for subset in subsets), key=tokens))
    while lengths[-1] < longest:
        lengths.append(min(2 * lengths[-1], longest))
    return lengths


# Lengths to pad to: few shapes; more of them for mostly short texts, among which 12 tokens are as frequent as 200.
BUCKETS = (32, 64, 128, 256, 512)
SHORT_TEXTS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

# Pairs of a limit and the step between lengths up to it, for backends where a new shape costs nothing: little padding.
FINE_STEPS = ((32, 2), (64, 4), (128, 8), (256, 16), (512, 32), (1 << 20, 128))

# Batches per window: enough to separate lengths, few enough that one batch can be made quickly on its own.
WINDOW = 32

# The indices of the examples of a batch `(batch,)`, and the length it is padded to.
Bucket = namedtuple("Bucket", ["indexes", "length"])


def lengths_up_to(longest, lengths):
    """The lengths, ascending, that are below `longest`, followed by `longest`."""
    return [*(length for length in lengths if length < longest), longest]


def bucket_lengths(longest, compiled):
    """The lengths that rows are padded to, up to the longest one.

    Args:
        longest: the longest row.
        compiled: whether every shape is compiled, so that there should be few of them: see `few_lengths`.

    Example:

    >>> bucket_lengths(40, compiled=False)
    [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40]
    >>> bucket_lengths(300, compiled=True)
    [16, 40, 72, 152, 300]
    """
    if compiled:
        return few_lengths(longest)
    lengths = [0]
    for limit, step in FINE_STEPS:
        lengths += range(lengths[-1] + step, min(limit, longest + step) + 1, step)
    return lengths_up_to(longest, lengths[1:])


def least_length(lengths, tokens):
    """The smallest of the lengths, ascending, that holds a row of this many tokens."""
    return int(lengths[bisect.bisect_left(lengths, tokens)])


def divided(order, sizes, lengths, batch_size):
    """Divide examples into batches, all full except the last.

    Args:
        order: the indices of the examples, ascending by the length that holds them.
        sizes: tokens of every example, an array.
        lengths: lengths to pad to, ascending; the last holds every example.
        batch_size: examples of a batch.

    Returns:
        A list of `Bucket`, each padded to the smallest length that holds its longest example.
    """
    parts = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
    return [Bucket(part, least_length(lengths, sizes[part].max())) for part in parts]


def length_windows(sizes, batch_size, lengths, key):
    """Divide the examples of one window of the endless sequence of examples into batches.

    The examples are sorted by size and divided; the batches are shuffled. Every example is in exactly one batch.

    Args:
        sizes: tokens of every example, `(batches * batch_size,)`.
        batch_size: examples of a batch.
        lengths: lengths to pad to, ascending; the last holds every example.
        key: the key of the random numbers, uint64.

    Returns:
        For every batch the indices of its examples, ascending `(batch_size,)`, and the length it is padded to.
    """
    batches = divided(np.argsort(sizes, kind="stable"), sizes, lengths, batch_size)
    order = np.argsort(uniform_at(key, np.arange(len(batches)), Stream.MEMBERS), kind="stable")
    return [(np.sort(members), length) for members, length in (batches[i] for i in order)]


def rows_of_batch(tokens, length):
    """The number of rows of a length that a budget of tokens allows, at least one."""
    return max(1, tokens // length)


class EpochBatches(keras.utils.PyDataset):
    """Batches that are a function of epoch and index, `batch(epoch, index)`, for as many epochs as Keras asks for.

    The models of this package read the batches of an epoch in order, unless `fit` gets `shuffle=True`, and prefetch them. With any
    other `keras.Model`, pass `shuffle=False` to `fit`; nothing is prefetched then, since Keras's own threads lose and repeat
    batches on JAX and torch. Never pass `steps_per_epoch`.

    Args:
        start_epoch: index of the first epoch.
        repeat: whether every epoch has the batches of the first one, as an evaluation needs.
        workers: threads that prefetch batches during training, at most `max(2, workers)` ahead; 0 makes each batch when needed.
    """

    def __init__(self, start_epoch: int = 0, repeat: bool = False, workers: int = 0) -> None:
        super().__init__(workers=0, max_queue_size=max(2, workers))
        self.epoch = start_epoch
        self.repeat = repeat
        self.made_ahead_by = workers  # also a sign to models of this package to keep the order
        self._requested: set[int] | None = None

    def batch(self, epoch: int, index: int) -> tuple[Any, ...]:
        """Batch `index` of an epoch, regardless of earlier calls."""
        raise NotImplementedError

    def batches(self, epoch: int) -> list[Bucket]:
        """The `Bucket` of every batch of an epoch; none if batches are not made of such."""
        return []

    def one_of_each_shape(self) -> list[tuple[Any, ...]]:
        """Batches of the shapes of this epoch, each another one; none if the class has no `batches`.

        One is made of each size of the buckets. If their sizes do not determine the shape, there can be shapes that are not found.
        """
        sizes = {(len(bucket.indexes), bucket.length): index for index, bucket in enumerate(self.batches(self.epoch))}
        made = [self.batch(self.epoch, index) for index in sizes.values()]
        return list({tuple(array.shape for array in keras.tree.flatten(batch)): batch for batch in made}.values())

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if self._requested is not None:
            self._requested.add(index)
        return self.batch(self.epoch, index)

    def on_epoch_begin(self) -> None:
        self._requested = set()

    def on_epoch_end(self) -> None:
        # Keras ends epochs that never began; to build a model, it takes one batch of an epoch and ends the epoch.
        if self._requested is not None and len(self._requested) >= len(self) and not self.repeat:
            self.epoch += 1
        self._requested = None


def padded(sequences, length, padding=0, dtype="int32"):
    """Sequences as rows of an array `(sequences, length, ...)`, padded with `padding`."""
    first = np.asarray(sequences[0])
    rows = np.full((len(sequences), length, *first.shape[1:]), padding, dtype)
    sizes = np.fromiter(map(len, sequences), "int64", len(sequences))
    rows[np.arange(length) < sizes[:, None]] = np.concatenate(sequences)
    return rows


def input_arrays(inputs, length, padding):
    """One array per input of a model, padded to a length; the array itself, not a list, for a model with one input.

    Args:
        inputs: a list of rows per input.
        length: length of the arrays.
        padding: the padding value of each input.
    """
    return bare_if_one(tuple(padded(rows, length, pad) for rows, pad in zip(inputs, padding, strict=True)))


def model_inputs(names, ids, segments, pad_id, masked=None):
    """The inputs of a model for rows of token ids: the rows and the padding value of each input.

    Args:
        names: names of the inputs; `Input-Token`, `Input-Segment` and `Input-Mask` follow from the rows.
        ids, segments: lists of rows.
        pad_id: the id of the padding token.
        masked: for `Input-Masked`, rows that are nonzero at tokens to predict; None if the model has no such input.

    Returns:
        A list of lists of rows and a list of padding values, the arguments of `input_arrays`.

    Raises:
        ValueError: the model has another input.
    """
    columns = {
        "Input-Token": lambda: (ids, pad_id),
        "Input-Segment": lambda: (segments, 0),
        "Input-Mask": lambda: ([np.ones(len(row), "int32") for row in ids], 0),
        **({} if masked is None else {"Input-Masked": lambda: (masked, 0)}),
    }
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ValueError(f"the model must have no inputs other than {', '.join(columns)}; it also has {', '.join(unknown)}.")
    inputs, padding = zip(*(columns[name]() for name in names), strict=True)
    return list(inputs), list(padding)
