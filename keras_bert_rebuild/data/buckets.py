"""Rows in, results out, in order: rows of similar length wait for each other in queues and are computed together."""

import bisect
from collections import deque

import numpy as np

from keras_bert_rebuild.data.batches import rows_of_batch

# A batch that runs before it is full also takes rows of at least this fraction of its length: cheaper than a batch of their own.
CLOSE = 0.85

# Where every shape is compiled, a batch is padded to at most this multiple of its rows rather than compiled for fewer rows.
SPARE = 8

# Rows that may be read, and bytes of results that may be held back, before the oldest row has its result.
LOOK_AHEAD = 4096
WAITING_BYTES = 1 << 27

# Rows that are read while the batch of the oldest pending row is computed.
GRACE = 256


class SingleRow:
    """A block of one row, for sources that have one row at a time."""

    def __init__(self, row):
        self.row, self.sizes = row, (len(row[0]),)

    @staticmethod
    def batch(parts):
        return [block.row for block, _ in parts]

    @staticmethod
    def room_for(answers):
        return [None]


class _Pending:
    """A block whose results are not yet complete."""

    def __init__(self, block, first):
        self.block, self.first, self.missing = block, first, len(block.sizes)
        self.results, self.nbytes = None, 0

    def fill(self, indices, answers):
        """Store the results of some rows; return their bytes."""
        if self.results is None:
            self.results = self.block.room_for(answers)
        if isinstance(self.results, np.ndarray):
            self.results[indices] = answers
            added = self.results[:1].nbytes * len(indices)
        else:
            for i, answer in zip(indices, answers, strict=True):
                self.results[i] = answer
            added = sum(answer.nbytes for answer in answers)
        self.missing -= len(indices)
        self.nbytes += added
        return added


class Buckets:
    """Pass rows of similar length through a function together.

    Args:
        answer: a function of a sequence of rows and the length to pad them to; returns an array per row.
        lengths: the lengths, see `bucket_lengths`.
        batch_tokens: tokens of a batch, padding included; a batch has at least one row.
        look_ahead: rows that may be read before the oldest of them has its result.
        fetch: a function from the return value of `answer` to the arrays, called once the next batch has been dispatched, so that
            the device computes while rows are read; `GRACE` further rows are read ahead. None if `answer` returns the arrays.
    """

    def __init__(self, answer, lengths, batch_tokens, look_ahead=LOOK_AHEAD, fetch=None):
        self.answer = answer
        self.fetch = fetch
        self.lengths = list(lengths)
        self.batch_tokens = batch_tokens
        self.look_ahead = look_ahead

    def with_lengths(self, lengths):
        """A copy with other lengths."""
        return Buckets(self.answer, lengths, self.batch_tokens, self.look_ahead, self.fetch)

    def rows(self, length):
        """The number of rows in a full batch of a length."""
        return rows_of_batch(self.batch_tokens, length)

    def batches(self, sizes, are_all):
        """The different batches that rows of these sizes need, pairs of a number of rows and a length.

        Args:
            sizes: tokens of every row.
            are_all: whether no other rows come; else full batches of all lengths of which enough rows for one are known.
        """
        counts = np.bincount(np.searchsorted(self.lengths, sizes), minlength=len(self.lengths))
        shapes = []
        for length, count in zip(self.lengths, counts.tolist(), strict=False):
            full = self.rows(length)
            if count >= full or (not are_all and SPARE * count >= full):
                shapes.append((full, length))
            if are_all and count % full:
                shapes.append((count % full, length))
        return shapes

    def stream(self, rows):
        """Yield the result of every row, in order.

        A batch runs when it is full. The batch of the oldest pending row also runs once `look_ahead` rows, or `WAITING_BYTES` of
        results, wait for that row, so memory does not grow with the number of rows.

        Args:
            rows: an iterable, possibly endless, of rows, each a tuple whose first item is a sequence of ids.

        Raises:
            ValueError: a row is longer than the last length.
        """
        for (result,) in self.stream_blocks(map(SingleRow, rows)):
            yield result

    def stream_blocks(self, blocks):
        """Yield the results of every block of rows, in order; as `stream`, with less work for each row.

        Args:
            blocks: an iterable, possibly endless, of blocks of the same class. A block has `sizes`, the number of tokens of each of
                its rows; `batch(parts)`, the rows of pairs of a block and the indices of rows in it, as `answer` takes them; and
                `room_for(answers)`, an array or a list for the results of its rows, of the dtype and shape of these answers.

        Raises:
            ValueError: a row is longer than the last length.
        """
        queues = {length: deque() for length in self.lengths}  # of pairs of a pending block and the indices of rows in it
        queued = dict.fromkeys(self.lengths, 0)
        pending = deque()
        read = waiting = 0
        running = None  # the rows that the device is computing, and their future results

        def settle():
            nonlocal running, waiting
            if running is not None:
                (parts, answers), running = running, None
                answers = answers if self.fetch is None else self.fetch(answers)
                bounds = np.cumsum([len(indices) for _, indices in parts]).tolist()
                if bounds[-1] != len(answers):
                    raise ValueError(f"answer must return an array for each of the {bounds[-1]} rows; got {len(answers)}.")
                for (block, indices), end in zip(parts, bounds, strict=True):
                    waiting += block.fill(indices, answers[end - len(indices) : end])

        def run(length):
            nonlocal running
            room, parts = self.rows(length), []
            for close in (each for each in reversed(self.lengths) if CLOSE * length <= each <= length):
                while room and queues[close]:
                    block, indices = queues[close].popleft()
                    if len(indices) > room:
                        queues[close].appendleft((block, indices[room:]))
                        indices = indices[:room]
                    parts.append((block, indices))
                    room -= len(indices)
                    queued[close] -= len(indices)
            answers = self.answer(parts[0][0].block.batch([(block.block, indices) for block, indices in parts]), length)
            settle()
            running = parts, answers
            if self.fetch is None:
                settle()

        def due():
            """Yield blocks whose results are complete; compute the oldest one if it has waited for long enough."""
            nonlocal waiting
            while pending:
                oldest = pending[0]
                if not oldest.missing:
                    waiting -= oldest.nbytes
                    yield pending.popleft().results
                    continue
                ahead, full = read - 1 - oldest.first, waiting >= WAITING_BYTES
                if ahead < self.look_ahead and not full:
                    return
                if running is not None and any(block is oldest for block, _ in running[0]):
                    if ahead < self.look_ahead + GRACE and not full:
                        return
                    settle()
                else:
                    run(next(length for length, queue in queues.items() if queue and queue[0][0] is oldest))

        for block in blocks:
            pending.append(_Pending(block, read))
            for length, indices in self._by_length(block.sizes, read):
                queues[length].append((pending[-1], indices))
                queued[length] += len(indices)
                while queued[length] >= self.rows(length):
                    run(length)
            read += len(block.sizes)
            yield from due()
        # Longest first, so that every batch except the last few is full.
        while any(queued.values()):
            run(max(length for length, count in queued.items() if count))
            while pending and not pending[0].missing:
                yield pending.popleft().results
        settle()
        yield from (block.results for block in pending)

    def _by_length(self, sizes, read):
        """Pairs of a length and the indices of the rows of a block that are padded to it."""
        if len(sizes) == 1 and sizes[0] <= self.lengths[-1]:
            return [(self.lengths[bisect.bisect_left(self.lengths, sizes[0])], [0])]
        indexes = np.searchsorted(self.lengths, sizes)
        if indexes.max() == len(self.lengths):
            number = int(indexes.argmax())
            raise ValueError(f"a text may have at most {self.lengths[-1]} tokens; text {read + number} has {sizes[number]}.")
        order = np.argsort(indexes, kind="stable")
        distinct, first = np.unique(indexes[order], return_index=True)
        return [(self.lengths[index], part) for index, part in zip(distinct, np.split(order, first[1:]), strict=True)]


class EncodedBlock:
    """Rows of texts that were encoded together, in one array: a block of `Buckets.stream_blocks`, without an object for each row.

    Args:
        ids: token ids `(rows, longest)`; a row begins in the first column, and after it is padding.
        segments: their segments `(rows, longest)`.
        sizes: the number of tokens of every row `(rows,)`.
    """

    def __init__(self, ids, segments, sizes):
        self.ids, self.segments, self.sizes = ids, segments, sizes

    @classmethod
    def from_row(cls, ids, segments):
        """A block of one row."""
        return cls(np.asarray(ids)[None], np.asarray(segments)[None], np.array([len(ids)]))

    @staticmethod
    def batch(parts):
        """The `EncodedRows` of pairs of a block and the indices of rows in it."""
        return EncodedRows(parts)

    def room_for(self, answers):
        """An array for the results of all rows, of the dtype and shape of these."""
        first = np.asarray(answers[0])
        return np.empty((len(self.sizes), *first.shape), first.dtype)


class EncodedRows:
    """Rows of several blocks as a batch: pairs `(ids, segments)` for those who iterate, arrays for those who pad.

    Args:
        parts: pairs of an `EncodedBlock` and the indices of rows in it.
    """

    def __init__(self, parts):
        self.parts = parts
        self.sizes = np.concatenate([block.sizes[indices] for block, indices in parts])

    def __len__(self):
        return len(self.sizes)

    def __iter__(self):
        for block, indices in self.parts:
            for i in indices:
                yield block.ids[i, : block.sizes[i]], block.segments[i, : block.sizes[i]]

    def arrays(self, names, length, pad_id):
        """The arrays of the inputs of a model, a list of `(rows, length)`, int32.

        Args:
            names: names of inputs, some of `Input-Token`, `Input-Segment` and `Input-Mask`.
            length: the length to pad to, at least that of every row.
            pad_id: the id of padding.
        """
        made = {
            "Input-Token": lambda: self._gathered("ids", length, pad_id),
            "Input-Segment": lambda: self._gathered("segments", length, 0),
            "Input-Mask": lambda: (np.arange(length) < self.sizes[:, None]).astype("int32"),
        }
        return [made[name]() for name in names]

    def _gathered(self, field, length, padding):
        rows, first = np.full((len(self), length), padding, "int32"), 0
        for block, indices in self.parts:
            values = getattr(block, field)[:, :length].take(indices, axis=0)
            rows[first : first + len(indices), : values.shape[1]] = values
            first += len(indices)
        return rows
