"""A signal to any host ends the training of all hosts after the same batch."""

import os
import signal

import keras
import numpy as np
import pytest
from helpers.tiny_training import At, fit, tiny_model

from keras_bert_rebuild.training.state import callbacks
from keras_bert_rebuild.training.state.callbacks import StopTogether

pytestmark = pytest.mark.backend


class Count:
    """Counts the finished batches."""

    def __init__(self):
        self.batches = 0

    def __call__(self, values):
        """Like `gathered` on the first of two hosts, the other of which gets a signal after its third batch."""
        self.batches += 1
        return np.array([values, [signal.SIGTERM if self.batches >= 3 else 0]])


def test_a_signal_to_another_host_ends_the_training_here(monkeypatch):
    count = Count()
    monkeypatch.setattr(callbacks, "gathered", count)
    stop = StopTogether(every_steps=1)
    fit(tiny_model(), 6, [stop])
    assert count.batches == 3
    assert stop.received == signal.SIGTERM


def test_a_signal_to_this_host_waits_until_all_know(monkeypatch):
    asked = []

    def gathered(values):
        asked.append(values)
        return np.array([values, [0]])

    monkeypatch.setattr(callbacks, "gathered", gathered)
    seen = []

    def send(callback):
        os.kill(os.getpid(), signal.SIGINT)
        seen.append((stop.received, callback.model.stop_training))

    stop = StopTogether(every_steps=1)
    fit(tiny_model(), 6, [stop, At(2, send)])
    assert seen == [(None, False)]  # nothing happens here before the others know of it
    assert asked == [[0], [0], [signal.SIGINT]]
    assert stop.received == signal.SIGINT


def test_a_training_after_one_that_was_stopped_is_not_stopped_again(monkeypatch):
    asked = []

    def gathered(values):
        asked.append(values)
        return np.array([values, [0]])

    monkeypatch.setattr(callbacks, "gathered", gathered)
    stop = StopTogether(every_steps=1)
    fit(tiny_model(), 3, [stop, At(1, lambda callback: os.kill(os.getpid(), signal.SIGINT))])
    assert asked == [[0], [signal.SIGINT]]
    asked.clear()
    fit(tiny_model(), 3, [stop])
    assert asked == [[0], [0], [0], [0]]  # after each batch, and at the end of the epoch
    assert stop.received is None


def test_hosts_ask_each_other_after_the_same_batches_and_at_the_end_of_an_epoch(monkeypatch):
    asked, batches = [], []

    class Note(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            batches.append(batch)

    def gathered(values):
        asked.append(len(batches))
        return np.array([values, [0]])

    monkeypatch.setattr(callbacks, "gathered", gathered)
    fit(tiny_model(), 7, [StopTogether(every_steps=3), Note()], epochs=2)
    assert asked == [3, 6, 7, 10, 13, 14]


def test_a_signal_is_known_to_all_at_the_next_exchange(monkeypatch):
    monkeypatch.setattr(callbacks, "gathered", lambda values: np.array([values, [0]]))
    stop, batches = StopTogether(every_steps=4), []
    count = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: batches.append(batch))
    fit(tiny_model(), 12, [stop, count, At(2, lambda callback: os.kill(os.getpid(), signal.SIGINT))])
    assert batches == [0, 1, 2, 3]
    assert stop.received == signal.SIGINT
