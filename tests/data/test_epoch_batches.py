"""A training gets the batches of its epochs in order, each once, for any number of threads."""

import threading

import keras
import pytest
from helpers.recording_model import Numbered, OtherModel, recording_model

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
