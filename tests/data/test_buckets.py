"""Rows of similar length are computed together, and results come in the order of the rows."""

import itertools

import numpy as np
import pytest

from keras_bert_rebuild.data import buckets as buckets_of_rows
from keras_bert_rebuild.data.batches import bucket_lengths
from keras_bert_rebuild.data.buckets import Buckets, EncodedBlock


def rows_of(lengths):
    """Rows that carry their number in their first id."""
    for number, length in enumerate(lengths):
        ids = np.zeros(length, int)
        ids[0] = number
        yield ids, ids


class Recorder:
    """Returns the number of every row, and records the batches."""

    def __init__(self, width=1):
        self.batches = []
        self.width = width

    def __call__(self, rows, length):
        assert all(len(ids) <= length for ids, _ in rows)
        self.batches.append((len(rows), length))
        return np.array([np.full(self.width, ids[0]) for ids, _ in rows], "float32")


@pytest.mark.parametrize("look_ahead", [1, 7, 100, 10_000])
def test_results_come_in_the_order_of_the_rows(rng, look_ahead):
    answer = Recorder()
    lengths = rng.integers(1, 41, 1000)
    buckets = Buckets(answer, bucket_lengths(40, compiled=False), 128, look_ahead)
    numbers = [int(vector[0]) for vector in buckets.stream(rows_of(lengths))]
    assert numbers == list(range(1000))
    assert sum(count for count, _ in answer.batches) == 1000
    assert all(count * length <= 128 for count, length in answer.batches)


def test_batches_are_full_where_many_rows_may_wait(rng):
    answer = Recorder()
    list(Buckets(answer, [8, 16, 32], 64, 500).stream(rows_of(rng.integers(1, 33, 2000))))
    full = {8: 8, 16: 4, 32: 2}
    partial = [batch for batch in answer.batches if batch[0] != full[batch[1]]]
    assert len(partial) <= 3


def test_the_batches_of_known_rows_are_those_that_run(rng):
    for count in (1, 5, 40, 300):
        answer = Recorder()
        buckets = Buckets(answer, [8, 16, 32], 64, 500)
        sizes = rng.integers(1, 33, count)
        list(buckets.stream(rows_of(sizes)))
        assert set(buckets.batches(sizes, are_all=True)) == set(answer.batches)
    assert buckets.batches([], are_all=True) == []


def test_full_batches_are_expected_of_lengths_that_have_an_eighth_of_one():
    buckets = Buckets(None, [8, 16, 32], 64 * 16)  # 128, 64 and 32 rows
    sizes = [3] * 15 + [12] * 8 + [30] * 40
    assert buckets.batches(sizes, are_all=False) == [(64, 16), (32, 32)]
    assert buckets.batches(sizes, are_all=True) == [(15, 8), (8, 16), (32, 32), (8, 32)]


class Device(Recorder):
    """Answers when it is asked for the answers, and records when batches begin and when they are fetched."""

    def __init__(self):
        super().__init__()
        self.events = []

    def __call__(self, rows, length):
        self.events.append("begin")
        return super().__call__(rows, length)

    def fetch(self, answers):
        self.events.append("fetch")
        return answers


@pytest.mark.parametrize("look_ahead", [1, 100, 10_000])
def test_a_batch_is_fetched_when_the_next_one_has_begun(rng, look_ahead):
    device = Device()
    rows = rows_of(rng.integers(1, 41, 1000))
    buckets = Buckets(device, bucket_lengths(40, compiled=False), 128, look_ahead, device.fetch)
    assert [int(vector[0]) for vector in buckets.stream(rows)] == list(range(1000))
    assert device.events[:2] == ["begin", "begin"]
    begun = np.cumsum(np.array(device.events) == "begin")
    running = begun - np.cumsum(np.array(device.events) == "fetch")
    assert running.max() == 2
    assert running[-1] == 0


def test_a_slow_source_gets_its_answers_a_little_later(rng):
    device = Device()
    stream = Buckets(device, [8], 64, 10, device.fetch).stream(rows_of(itertools.repeat(4)))
    assert [int(next(stream)[0]) for _ in range(500)] == list(range(500))


def test_no_more_rows_are_read_ahead_than_allowed(rng):
    read = itertools.count()
    lengths = iter(rng.choice([4, 4, 4, 4, 4, 4, 4, 4, 4, 30], 5000))
    stream = Buckets(Recorder(), [8, 32], 1 << 20, 100).stream(rows_of(next(lengths) + 0 * next(read) for _ in itertools.count()))
    for answered in range(1, 1000):
        next(stream)
        ahead = next(read) - answered - (answered - 1)  # the requested row counts, too
        assert ahead <= 101


def test_large_results_do_not_accumulate(monkeypatch):
    monkeypatch.setattr(buckets_of_rows, "WAITING_BYTES", 4000)
    answer = Recorder(width=100)  # 400 bytes each
    lengths = [30] + [4] * 400  # the first one is the only one of its length
    numbers = [int(vector[0]) for vector in Buckets(answer, [8, 32], 64, 10_000).stream(rows_of(lengths))]
    assert numbers == list(range(401))
    # Two batches of eight are 6,400 bytes: then the first row was computed alone.
    assert answer.batches[2] == (1, 32)


def test_a_row_that_is_too_long_is_reported_in_a_sentence():
    with pytest.raises(ValueError, match="at most 32 tokens; text 1 has 33"):
        list(Buckets(Recorder(), [8, 32], 64).stream(rows_of([3, 33])))


def blocks_of(sizes, counts):
    """Blocks of rows that carry their number in all ids, and the results that `numbers` gives."""
    first = 0
    for count in counts:
        of_block = sizes[first : first + count]
        inside = np.arange(max(of_block)) < of_block[:, None]
        ids = np.where(inside, np.arange(first, first + len(of_block))[:, None], -1)
        yield EncodedBlock(ids, 2 * ids, of_block)
        first += count


class NumbersOfBlocks:
    """Returns the number of every row from arrays that are padded to the length of the batch, and records the batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, rows, length):
        ids, segments, mask = rows.arrays(["Input-Token", "Input-Segment", "Input-Mask"], length, -1)
        assert ids.shape == segments.shape == mask.shape == (len(rows), length)
        assert ((mask == 1) == (ids >= 0)).all()
        for (own_ids, own_segments), of_batch, inside in zip(rows, ids, mask == 1, strict=True):
            np.testing.assert_array_equal(own_ids, of_batch[inside])
            np.testing.assert_array_equal(own_segments, 2 * of_batch[inside])
        self.batches.append((len(rows), length))
        return np.stack([ids[:, 0], 10 * ids[:, 0]], axis=1).astype("float32")


@pytest.mark.parametrize("look_ahead", [1, 30, 100, 10_000])
@pytest.mark.parametrize("fetch", [None, lambda answers: answers])
def test_results_of_blocks_come_in_the_order_of_the_blocks(rng, look_ahead, fetch):
    answer = NumbersOfBlocks()
    counts = [*rng.integers(1, 40, 50).tolist(), 1]
    sizes = rng.integers(1, 41, sum(counts))
    buckets = Buckets(answer, bucket_lengths(40, compiled=False), 128, look_ahead, fetch)
    results = list(buckets.stream_blocks(blocks_of(sizes, counts)))
    assert [len(result) for result in results] == counts
    np.testing.assert_array_equal(np.concatenate(results), np.arange(len(sizes))[:, None] * [1, 10])
    assert sum(count for count, _ in answer.batches) == len(sizes)
    assert all(count * length <= 128 for count, length in answer.batches)


def test_batches_of_blocks_are_those_of_single_rows_where_many_rows_may_wait(rng):
    sizes, single, together = rng.integers(1, 41, 640), Recorder(), NumbersOfBlocks()
    list(Buckets(single, [8, 16, 40], 128).stream(rows_of(sizes)))
    list(Buckets(together, [8, 16, 40], 128).stream_blocks(blocks_of(sizes, [64] * 10)))
    assert sorted(single.batches) == sorted(together.batches)


def test_blocks_are_not_read_further_ahead_than_allowed(rng):
    read = 0

    def blocks():
        nonlocal read
        while True:
            read += 16
            yield from blocks_of(np.array([30] + [4] * 15), [16])  # the long rows fill no batch

    stream = Buckets(NumbersOfBlocks(), [8, 32], 1 << 20, 100).stream_blocks(blocks())
    for answered in range(0, 1600, 16):
        next(stream)
        assert read - answered <= 100 + 16


def test_a_row_of_a_block_that_is_too_long_is_counted_from_the_first_block():
    with pytest.raises(ValueError, match="at most 32 tokens; text 5 has 33"):
        list(Buckets(NumbersOfBlocks(), [8, 32], 64).stream_blocks(blocks_of(np.array([3, 3, 3, 3, 3, 33, 3]), [4, 3])))


def test_a_wrong_number_of_answers_is_reported_in_a_sentence():
    with pytest.raises(ValueError, match="an array for each of the 8 rows; got 7"):
        list(Buckets(lambda rows, length: np.zeros((7, 2)), [8], 64).stream(rows_of([4] * 8)))
