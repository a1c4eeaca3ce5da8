"""The lengths that rows are padded to, their arrays, and the batches of an epoch in order, each once, for any number of threads."""

import itertools
import math
import threading

import keras
import numpy as np
import pytest
from helpers.small_corpus import small_corpus
from helpers.tiny_training import Numbered, OtherModel, recording_model
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.data.batches import (
    MOST,
    WINDOW,
    bucket_lengths,
    candidates,
    chosen_lengths,
    few_lengths,
    input_arrays,
    length_windows,
    model_inputs,
)
from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches
from keras_bert_rebuild.data.random_numbers import keys


def test_the_largest_length_is_that_of_the_longest_row():
    for longest in (1, 8, 9, 100, 300, 512, 1000):
        for compiled in (False, True):
            lengths = bucket_lengths(longest, compiled)
            assert lengths == sorted(set(lengths))
            assert lengths[-1] == longest
    assert len(bucket_lengths(512, compiled=True)) == 5
    assert len(bucket_lengths(512, compiled=False)) == 48


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


def computed(sizes, lengths):
    return np.array(lengths)[np.searchsorted(lengths, sizes)].sum()


@pytest.mark.parametrize("longest", [2, 8, 16, 17, 40, 128, 300, 512, 8192])
def test_there_are_at_most_five_lengths_and_the_last_holds_the_longest_row(rng, longest):
    sizes = rng.integers(1, longest + 1, 1000)
    sizes[0] = longest
    for lengths in (few_lengths(longest), chosen_lengths(sizes, longest), chosen_lengths(sizes[:9], longest)):
        assert lengths == sorted(set(lengths))
        assert lengths[-1] == longest
        assert len(lengths) <= MOST


def test_the_chosen_lengths_compute_less_than_any_others(rng):
    sizes = rng.geometric(0.05, 1000).clip(3, 96)
    chosen = computed(sizes, chosen_lengths(sizes, 96, most=3))
    *others, last = candidates(96)
    assert chosen == min(computed(sizes, [*pair, last]) for pair in itertools.combinations(others, 2))


def test_longer_rows_than_those_it_was_chosen_for_need_at_most_twice_the_tokens():
    assert chosen_lengths([10, 11, 12] * 200, 100) == [12, 24, 48, 96, 100]


def test_no_length_is_taken_that_saves_nothing():
    assert chosen_lengths([10, 11, 12] * 200, 12) == [12]


LENGTHS = (8, 16, 24, 40)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
def test_every_example_is_in_one_batch_of_the_smallest_length_that_fits(batch_size, count, seed):
    sizes = np.random.default_rng(seed).integers(1, LENGTHS[-1] + 1, batch_size * count)
    plan = length_windows(sizes, batch_size, np.array(LENGTHS), np.uint64(seed))
    assert sorted(np.concatenate([members for members, _ in plan])) == list(range(len(sizes)))
    for members, length in plan:
        assert len(members) == batch_size
        assert length == min(n for n in LENGTHS if n >= sizes[members].max())


def test_the_batches_of_a_window_come_in_any_order_whatever_their_lengths():
    sizes = np.random.default_rng(0).permutation(np.repeat(np.arange(1, 9) * 5, 3))
    firsts, lasts = np.zeros(8), np.zeros(8)
    for key in keys(0, 0, np.arange(800)):
        plan = length_windows(sizes, 3, np.arange(5, 41, 5), key)
        np.add.at(firsts, plan[0][1] // 5 - 1, 1)
        np.add.at(lasts, plan[-1][1] // 5 - 1, 1)
    for counts in (firsts, lasts):
        assert ((counts - 100) ** 2 / 100).sum() < 7 + 5 * math.sqrt(2 * 7)


def many(lengths, **changes):
    corpus = small_corpus(documents=60, passages=2, longest=12)
    return pretraining_batches(corpus, 4, 40, 6, seed=1, **{"lengths": lengths, "steps_per_epoch": WINDOW + 5, **changes})


def rows_of(batches):
    """Every example of an epoch as its tokens and labels, without padding."""
    rows = []
    for i in range(len(batches)):
        (tokens, segments, chosen), (labels, pair) = batches.batch(0, i)
        for row in range(len(tokens)):
            real = tokens[row] != 0
            rows.append((*(tuple(array[row][real]) for array in (tokens, segments, chosen, labels[..., 0])), int(pair[row, 0])))
    return rows


def test_the_examples_equal_those_of_batches_without_lengths():
    assert sorted(rows_of(many(LENGTHS))) == sorted(rows_of(many(None)))


def test_batches_are_shorter_than_without_lengths():
    batches = many(LENGTHS, next_sentence=None)  # a random second segment fills the remaining tokens
    lengths = [batches.batch(0, i)[0][0].shape[1] for i in range(len(batches))]
    assert set(lengths) <= set(LENGTHS)
    assert len(set(lengths)) > 1
    assert sum(lengths) < 0.8 * 40 * len(batches)


def test_a_batch_alone_is_the_batch_in_sequence():
    in_sequence = [many(LENGTHS).batch(1, i) for i in range(WINDOW + 5)]
    for i in (WINDOW + 3, 0, 7):
        for a, b in zip(in_sequence[i][0], many(LENGTHS).batch(1, i)[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_processes_share_a_batch_of_one_length():
    whole = many(LENGTHS)
    parts = [many(LENGTHS, process_index=i, process_count=2) for i in range(2)]
    for i in (0, WINDOW + 1):
        joined = [np.concatenate(arrays) for arrays in zip(*(part.batch(0, i)[0] for part in parts), strict=True)]
        for a, b in zip(joined, whole.batch(0, i)[0], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lengths", [(2, 40), (8, 41), ()])
def test_invalid_lengths_are_an_error(lengths):
    with pytest.raises(ValueError, match="lengths must be from 5 to seq_len=40"):
        many(lengths)


# A training gets the batches of its epochs in order, each once, for any number of threads.


WORKERS = [0, 1, 2, 5]
SECONDS = 60  # then a waiting test fails


def epochs(first, last, count):
    return [(epoch, index) for epoch in range(first, last) for index in range(count)]


def assert_no_thread_is_left():
    for thread in threading.enumerate():
        if thread.name == "read-ahead":
            thread.join(SECONDS)
            assert not thread.is_alive()


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("workers", WORKERS)
def test_trainings_get_the_batches_of_their_epochs_in_order(workers, count):
    model, data = recording_model(), Numbered(count, workers=workers)
    model.fit(data, epochs=3, verbose=0)
    model.fit(data, epochs=2, verbose=0)  # Keras has built the model from the first batch and does not look at it again
    assert model.seen == epochs(0, 5, count)
    assert data.epoch == 5
    again = recording_model()
    again.fit(Numbered(count, workers=workers, start_epoch=4), verbose=0)
    assert again.seen == epochs(4, 5, count)


@pytest.mark.parametrize("workers", WORKERS)
def test_evaluation_and_prediction_get_them_in_order_too(workers):
    model = recording_model()
    data, held_out = Numbered(3, workers=workers), Numbered(4, workers=workers, start_epoch=20, repeat=True)
    model.evaluate(held_out, verbose=0)
    model.fit(data, epochs=2, validation_data=held_out, verbose=0)
    model.predict(held_out, verbose=0)
    evaluated = epochs(20, 21, 4)
    assert model.seen == [*evaluated, *epochs(0, 1, 3), *evaluated, *epochs(1, 2, 3), *evaluated, *evaluated]


@pytest.mark.parametrize("workers", WORKERS)
def test_with_shuffle_a_training_gets_each_once_in_another_order(workers):
    model = recording_model()
    model.fit(Numbered(30, workers=workers), shuffle=True, verbose=0)
    assert model.seen != epochs(0, 1, 30)
    assert sorted(model.seen) == epochs(0, 1, 30)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_foreign_model_gets_them_in_order_without_shuffle(workers):
    model = recording_model(OtherModel)
    model.fit(Numbered(7, workers=workers), epochs=2, shuffle=False, verbose=0)
    assert model.seen == epochs(0, 2, 7)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_stopped_epoch_restarts(workers):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

    model, data = recording_model(), Numbered(7, workers=workers)
    model.fit(data, verbose=0)
    model.fit(data, callbacks=[Stop()], verbose=0)
    model.fit(data, verbose=0)
    assert model.seen == [*epochs(0, 1, 7), *epochs(1, 2, 3), *epochs(1, 2, 7)]
    assert_no_thread_is_left()


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_are_made_while_the_model_trains_each_once(workers):
    third = threading.Event()

    class Watched(Numbered):
        def batch(self, epoch, index):
            if index == 2:
                third.set()
            return super().batch(epoch, index)

    class Wait(keras.callbacks.Callback):
        was_made = False

        def on_train_batch_end(self, batch, logs=None):
            if batch == 0:
                self.was_made = third.wait(SECONDS)

    data, wait = Watched(9, workers=workers), Wait()
    recording_model().fit(data, callbacks=[wait], verbose=0)
    assert wait.was_made
    # Keras reads the shapes from the first batch, and from the first two on TensorFlow.
    assert sorted(call for call in data.made if call[1] > 1) == epochs(0, 1, 9)[2:]


@pytest.mark.parametrize("workers", WORKERS)
def test_an_error_in_a_batch_ends_the_training_and_the_threads(workers):
    class Broken(Numbered):
        def batch(self, epoch, index):
            if index == 3:
                raise ValueError("no fourth batch")
            return super().batch(epoch, index)

    model = recording_model()
    with pytest.raises(Exception, match="no fourth batch") as caught:  # TensorFlow raises its own error for it
        model.fit(Broken(9, workers=workers), verbose=0)
    if keras.backend.backend() != "tensorflow":
        assert caught.type is ValueError
        assert model.seen == epochs(0, 1, 3)
    assert_no_thread_is_left()
