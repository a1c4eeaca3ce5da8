"""Signals end a training cleanly."""

import os
import signal
import threading

import keras
import numpy as np
import pytest
from helpers.tiny_training import At, batches, fit, tiny_model

from keras_bert_rebuild.training.state.callbacks import StopOnSignal
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints

pytestmark = [pytest.mark.backend, pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")]


@pytest.fixture(autouse=True)
def caught():
    """Signals that the callback did not catch: they must not end the tests."""
    got = []
    former = {number: signal.signal(number, lambda n, frame: got.append(n)) for number in (signal.SIGTERM, signal.SIGINT)}
    handlers = {number: signal.getsignal(number) for number in former}
    yield got
    assert {number: signal.getsignal(number) for number in former} == handlers, "handlers were not restored"
    for number, handler in former.items():
        signal.signal(number, handler)


def send(number=signal.SIGTERM):
    return lambda callback: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_a_signal_is_followed_by_a_checkpoint_and_the_end(tmp_path, caught, number, order):
    stop, save = StopOnSignal(), SaveCheckpoints(tmp_path)
    callbacks = [At(3, send(number)), stop, save]
    fit(tiny_model(), 6, [callbacks[i] for i in order], epochs=2)
    assert stop.received is number
    assert save.folder.steps() == [3]
    assert caught == []


def test_a_second_signal_acts_as_usual(tmp_path, caught):
    stop = StopOnSignal()
    fit(tiny_model(), 6, [stop, At(3, send()), At(3, send(signal.SIGINT)), At(3, send())])
    assert stop.received is signal.SIGTERM
    assert caught == [signal.SIGINT, signal.SIGTERM]


def test_without_a_signal_nothing_stops(caught):
    stop = StopOnSignal()
    assert len(fit(tiny_model(), 2, [stop], epochs=2).history["loss"]) == 2
    assert stop.received is None


def test_a_signal_during_validation_does_not_wait_for_its_end(tmp_path):
    seen = []

    class DuringValidation(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            seen.append(batch)
            if batch == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    stop, save = StopOnSignal(), SaveCheckpoints(tmp_path)
    fit(tiny_model(), 2, [DuringValidation(), stop, save], epochs=5, validation_data=batches(6), validation_batch_size=4)
    assert seen == [0, 1]
    assert save.folder.steps() == [2]


def test_a_signal_just_before_validation_is_followed_by_a_checkpoint_before_it(tmp_path):
    steps = []
    stop, save = StopOnSignal(), SaveCheckpoints(tmp_path)

    class BeforeValidation(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            os.kill(os.getpid(), signal.SIGTERM)

        def on_test_batch_begin(self, batch, logs=None):
            steps.append(save.folder.steps())

    fit(tiny_model(), 2, [BeforeValidation(), stop, save], epochs=5, validation_data=batches(2), validation_batch_size=4)
    assert steps == [[2]]


def test_handlers_are_restored_after_an_error(caught):
    def fail(callback):
        raise RuntimeError("on purpose")

    with StopOnSignal() as stop, pytest.raises(RuntimeError, match="on purpose"):
        fit(tiny_model(), 3, [stop, At(1, fail)])


def test_as_a_context_it_works_between_trainings(tmp_path, caught):
    with StopOnSignal() as stop:
        fit(tiny_model(), 2, [stop])
        assert stop.received is None
        send()(None)
        assert stop.received is signal.SIGTERM
        send()(None)
    assert caught == [signal.SIGTERM]


def test_a_separate_evaluation_ends_too(tmp_path):
    seen = []

    class Once(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            seen.append(batch)
            send()(None)

    model = tiny_model()
    with StopOnSignal() as stop:
        fit(model, 2, [stop])
        model.evaluate(*batches(6), batch_size=4, verbose=0, callbacks=[Once()])
    assert seen == [0]


def test_in_another_thread_nothing_is_installed(caught):
    stop = StopOnSignal()
    installed = []
    watch = At(1, lambda callback: installed.append(signal.getsignal(signal.SIGTERM)))
    former = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=fit, args=(tiny_model(), 2, [stop, watch]))
    thread.start()
    thread.join()
    assert installed == [former]


def test_the_model_works_after_a_signal(tmp_path):
    model = tiny_model()
    fit(model, 6, [At(3, send()), StopOnSignal()])
    assert np.isfinite(model.get_weights()[0]).all()


def test_a_context_catches_signals_before_any_training(caught):
    with StopOnSignal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught == [signal.SIGTERM]
