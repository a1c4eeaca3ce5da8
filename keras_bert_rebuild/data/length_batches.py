"""Batches of rows of about the same length, each padded to one of few lengths: the one engine of training and prediction."""

import bisect
from collections import namedtuple

import numpy as np

from keras_bert_rebuild.data.random_numbers import Stream, uniform_at

# Lengths of few shapes, and of short texts, which have 12 tokens as often as 200.
BUCKETS = (32, 64, 128, 256, 512)
SHORT_TEXTS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

# Pairs of a limit and the step between lengths up to it: little padding, where a new shape costs nothing.
FINE_STEPS = ((32, 2), (64, 4), (128, 8), (256, 16), (512, 32), (1 << 20, 128))

# Batches per window: enough to separate lengths, few enough that a single batch can be made at once.
WINDOW = 32

# A batch that runs before it is full also takes rows of at least this share of its length: they cost less there than alone.
CLOSE = 0.85

# Rows that may be read before the first of them is answered, and bytes of answers that may wait for it.
LOOK_AHEAD = 4096
WAITING_BYTES = 1 << 27

# The numbers of the examples of a batch `(batch,)`, and the length it is padded to.
Bucket = namedtuple("Bucket", ["indexes", "length"])


def lengths_up_to(longest, lengths):
    """Those of the lengths, ascending, that are below the longest row, and that of the longest row."""
    return [*(length for length in lengths if length < longest), longest]


def bucket_lengths(longest, compiled):
    """The lengths that rows are padded to, up to the longest one.

    Args:
        longest: the longest row.
        compiled: whether every shape is compiled, so that there should be few.

    Example:

    >>> bucket_lengths(40, compiled=False)
    [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40]
    >>> bucket_lengths(300, compiled=True)
    [16, 32, 64, 128, 256, 300]
    """
    if compiled:
        return lengths_up_to(longest, [16 << double for double in range(longest.bit_length())])
    lengths = [0]
    for limit, step in FINE_STEPS:
        lengths += range(lengths[-1] + step, min(limit, longest + step) + 1, step)
    return lengths_up_to(longest, lengths[1:])


def least_length(lengths, tokens):
    """The least of the lengths, ascending, that holds a row of that many tokens."""
    return int(lengths[bisect.bisect_left(lengths, tokens)])


def divided(order, sizes, lengths, batch_size):
    """Divide examples into batches, all of them full but the last.

    Args:
        order: the numbers of the examples, ascending in the length that holds them.
        sizes: tokens of every example, an array.
        lengths: lengths to pad to, ascending; the last holds every example.
        batch_size: examples of a batch.

    Returns:
        A list of `Bucket`, each padded to the least length that holds its longest example.
    """
    parts = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
    return [Bucket(part, least_length(lengths, sizes[part].max())) for part in parts]


def length_windows(sizes, batch_size, lengths, key):
    """Divide the examples of a window of their endless sequence into batches.

    The examples are sorted by size and divided; the batches come in random order. Every example is in one batch.

    Args:
        sizes: tokens of every example, `(batches * batch_size,)`.
        batch_size: examples of a batch.
        lengths: lengths to pad to, ascending; the last holds every example.
        key: the key of the draws, uint64.

    Returns:
        For every batch the numbers of its examples, ascending `(batch_size,)`, and the length it is padded to.
    """
    batches = divided(np.argsort(sizes, kind="stable"), sizes, lengths, batch_size)
    order = np.argsort(uniform_at(key, np.arange(len(batches)), Stream.MEMBERS), kind="stable")
    return [(np.sort(members), length) for members, length in (batches[i] for i in order)]


class Buckets:
    """Pass rows of about the same length through a function together.

    Args:
        answer: a function of rows and the length to pad them to that returns an array for each row.
        lengths: the lengths, as from `bucket_lengths`.
        batch_tokens: tokens in a batch, padding included; a batch has at least one row.
        look_ahead: rows that may be read before the first of them is answered.
    """

    def __init__(self, answer, lengths, batch_tokens, look_ahead=LOOK_AHEAD):
        self.answer = answer
        self.lengths = lengths
        self.batch_tokens = batch_tokens
        self.look_ahead = look_ahead

    def rows(self, length):
        """The number of rows in a full batch of a length."""
        return max(1, self.batch_tokens // length)

    def stream(self, rows):
        """Yield the answer to every row, in order.

        A batch runs when it is full. The batch of the oldest unanswered row also runs when `look_ahead` rows or `WAITING_BYTES` of
        answers wait for that row. So memory does not grow with the number of rows.

        Args:
            rows: an iterable of rows, each a tuple whose first item is a sequence of ids; it may be endless.

        Raises:
            ValueError: a row is longer than the last length.
        """
        queues = {length: [] for length in self.lengths}
        done, waiting, first = {}, 0, 0

        def run(length):
            room, batch = self.rows(length), []
            for close in (each for each in reversed(self.lengths) if CLOSE * length <= each <= length):
                taken = room - len(batch)
                batch += queues[close][:taken]
                queues[close] = queues[close][taken:]
            answers = self.answer([row for _, row in batch], length)
            done.update({number: answer for (number, _), answer in zip(batch, answers, strict=True)})
            return sum(answer.nbytes for answer in answers)

        for number, row in enumerate(rows):
            if len(row[0]) > self.lengths[-1]:
                raise ValueError(f"a text may have at most {self.lengths[-1]} tokens; text {number} has {len(row[0])}.")
            length = least_length(self.lengths, len(row[0]))
            queues[length].append((number, row))
            if len(queues[length]) == self.rows(length):
                waiting += run(length)
            while True:
                while first in done:
                    waiting -= done[first].nbytes
                    yield done.pop(first)
                    first += 1
                if first > number or (number - first < self.look_ahead and waiting < WAITING_BYTES):
                    break
                waiting += run(next(length for length, queue in queues.items() if queue and queue[0][0] == first))
        # Longest first, so that every batch except the last few is full.
        while any(queues.values()):
            run(max(length for length, queue in queues.items() if queue))
            while first in done:
                yield done.pop(first)
                first += 1
