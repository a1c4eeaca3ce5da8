"""The settings with which a host joins others, what the hosts agree on, and how they stop together and leave."""

import atexit
import os
import signal
import sys

import keras
import numpy as np
import pytest
from helpers.tiny_training import At, fit, tiny_model

from keras_bert_rebuild.training.distributed import hosts
from keras_bert_rebuild.training.distributed.hosts import (
    EXIT_CODE,
    check_agreement,
    gathered,
    host_count,
    host_index,
    join_hosts,
    trained_together,
    whole_array,
)
from keras_bert_rebuild.training.state import callbacks
from keras_bert_rebuild.training.state.callbacks import StopTogether

pytestmark = pytest.mark.backend

ENVIRONMENT = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID")
IS_JAX = keras.config.backend() == "jax"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("told", [{}, {"hosts": 1}, {"hosts": 1, "host_index": 0, "coordinator": "a:1"}])
def test_one_host_joins_nobody(told):
    join_hosts(**told)
    assert (host_count(), host_index()) == (1, 0)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"host_index": 1}, "hosts must be the number of hosts; got only host_index=1"),
        ({"coordinator": "a:1"}, "hosts must be the number of hosts; .* coordinator=a:1"),
        ({"hosts": "auto", "host_index": 1}, "hosts must be the number of hosts; got 'auto' beside host_index=1"),
        ({"hosts": 0}, "hosts must be at least 1; got 0"),
        ({"hosts": 2, "host_index": 2}, "host_index must be from 0 to 1, for 2 hosts; got 2"),
        ({"hosts": 2, "host_index": -1}, "host_index must be from 0 to 1, for 2 hosts; got -1"),
        ({"hosts": 2, "coordinator": "a:1"}, "host_index must be set, the index among 2 hosts"),
        ({"hosts": 2, "host_index": 0, "coordinator": "a"}, "coordinator must be address:port, a free port of host 0; got 'a'"),
        ({"hosts": "two"}, r"hosts must be a whole number; got 'two'\.$"),
    ],
)
def test_inconsistent_settings_are_reported_in_a_sentence(told, sentence):
    with pytest.raises(ValueError, match=sentence):
        join_hosts(**told)


def test_an_invalid_number_is_reported_with_its_environment_variable(monkeypatch):
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "two")
    with pytest.raises(ValueError, match="hosts must be a whole number; got 'two' from KERAS_DISTRIBUTION_NUM_PROCESSES"):
        join_hosts()


@pytest.mark.skipif(not IS_JAX, reason="only JAX joins hosts")
def test_a_process_that_no_cluster_started_is_told_what_to_set():
    with pytest.raises(
        ValueError, match=r"^hosts='auto' must run under Slurm, .*; elsewhere set hosts, host_index and coordinator\.$"
    ):
        join_hosts("auto")


@pytest.mark.skipif(IS_JAX, reason="JAX can")
def test_several_hosts_are_refused_with_the_backend_that_supports_them(monkeypatch):
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "2")
    monkeypatch.setenv("KERAS_DISTRIBUTION_PROCESS_ID", "0")
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", "a:1,b:1")
    with pytest.raises(ValueError, match=r"several hosts must train with JAX; .*: set KERAS_BACKEND=jax"):
        join_hosts()


def test_a_host_alone_agrees_with_itself():
    assert gathered([3, 2**40]).tolist() == [[3, 2**40]]
    check_agreement({"seed": 1})


def test_hosts_that_differ_are_told_the_difference(monkeypatch):
    monkeypatch.setattr(hosts, "gathered", lambda values: np.stack([values, np.add(values, [0, 1])]))
    with pytest.raises(ValueError, match=r"all hosts must agree; they differ in seed \(here 7\)\."):
        check_agreement({"steps": 3, "seed": 7})


def test_an_array_is_read_whole_whatever_its_shape():
    for value in (3.0, [1.0, 2.0]):
        assert whole_array(keras.Variable(np.array(value, "float32")).value).tolist() == value


@pytest.fixture
def left(monkeypatch):
    """How the second of two hosts left a training, a list."""
    found = []
    monkeypatch.setattr(hosts, "host_count", lambda: 2)
    monkeypatch.setattr(hosts, "host_index", lambda: 1)
    monkeypatch.setattr(hosts, "gathered", lambda values: found.append("together"))
    monkeypatch.setattr(atexit, "register", lambda function: found.append(function))
    return found


def test_hosts_leave_together_after_a_training_and_after_an_error_of_all(left):
    with trained_together():
        pass
    with pytest.raises(KeyError), trained_together(ends_together=(KeyError,)):
        raise KeyError
    assert left == ["together"] * 2


def test_a_host_with_an_error_of_its_own_leaves_alone(left):
    with pytest.raises(OSError, match="No space left"), trained_together(ends_together=(KeyError,)):
        raise OSError("No space left on device")
    assert left == [hosts._leave_alone]


def test_a_step_that_fails_is_a_sentence_that_says_how_to_go_on(left):
    sentence = r"^a step failed on host 1 of 2, .*: Connection closed by peer; the same command on all hosts resumes from the last"
    with pytest.raises(ConnectionError, match=sentence), trained_together():
        raise RuntimeError("Connection closed by peer.\n*** a trace ***")
    assert left == [hosts._leave_alone]


def test_one_host_waits_for_nobody():
    with pytest.raises(RuntimeError, match="a bug"), trained_together():
        raise RuntimeError("a bug")


def test_a_host_that_leaves_on_its_own_ends_even_if_its_output_is_closed(monkeypatch):
    class Closed:
        def flush(self):
            raise BrokenPipeError

    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Closed())
        hosts._leave_alone()
    assert codes == [EXIT_CODE]


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
