"""Rows of similar length are batched, results come in the order of the rows, and rows become the arrays of the inputs."""

import itertools

import numpy as np
import pytest

from keras_bert_rebuild.data import batches
from keras_bert_rebuild.data.batches import Buckets, bucket_lengths, input_arrays, model_inputs


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
    monkeypatch.setattr(batches, "WAITING_BYTES", 4000)
    answer = Recorder(width=100)  # 400 bytes each
    lengths = [30] + [4] * 400  # the first one is the only one of its length
    numbers = [int(vector[0]) for vector in Buckets(answer, [8, 32], 64, 10_000).stream(rows_of(lengths))]
    assert numbers == list(range(401))
    # Two batches of eight are 6,400 bytes: then the first row was computed alone.
    assert answer.batches[2] == (1, 32)


def test_the_largest_length_is_that_of_the_longest_row():
    for longest in (1, 8, 9, 100, 300, 512, 1000):
        for compiled in (False, True):
            lengths = bucket_lengths(longest, compiled)
            assert lengths == sorted(set(lengths))
            assert lengths[-1] == longest
    assert len(bucket_lengths(512, compiled=True)) == 5
    assert len(bucket_lengths(512, compiled=False)) == 48


def test_a_row_that_is_too_long_is_reported_in_a_sentence():
    with pytest.raises(ValueError, match="at most 32 tokens; text 1 has 33"):
        list(Buckets(Recorder(), [8, 32], 64).stream(rows_of([3, 33])))


IDS, SEGMENTS = [[2, 5, 3], [2, 3]], [[0, 1, 1], [0, 0]]


def test_arrays_come_in_the_order_of_the_names():
    names = ["Input-Mask", "Input-Token", "Input-Masked", "Input-Segment"]
    inputs, padding = model_inputs(names, IDS, SEGMENTS, 9, masked=[[False, True, False], [False, False]])
    mask, ids, masked, segments = input_arrays(inputs, 4, padding)
    assert mask.tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert ids.tolist() == [[2, 5, 3, 9], [2, 3, 9, 9]]
    assert masked.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    assert segments.tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    assert {array.dtype for array in (mask, ids, masked, segments)} == {np.dtype("int32")}


def test_one_input_comes_bare():
    inputs, padding = model_inputs(["Input-Token"], IDS, SEGMENTS, 0)
    assert input_arrays(inputs, 3, padding).shape == (2, 3)


@pytest.mark.parametrize("name", ["Input-Masked", "Input-Task"])
def test_inputs_that_rows_do_not_decide_are_named(name):
    with pytest.raises(ValueError, match=f"it also has {name}"):
        model_inputs(["Input-Token", name], IDS, SEGMENTS, 0)
