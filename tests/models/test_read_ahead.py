"""Prefetching in threads changes no result, is bounded, and leaves no running thread."""

import signal
import subprocess
import sys
import threading
import time

import pytest
from helpers.other_process import finish, start
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild.kernels.asynchronous import ReadAhead

pytestmark = pytest.mark.backend

SECONDS = 60  # then a waiting test fails


class Noted:
    """A function that records how often each index is called, and the maximum of simultaneous calls."""

    def __init__(self, fails=()):
        self.fails, self.calls, self.most, self._now = set(fails), [], 0, 0
        self._lock = threading.Lock()

    def __call__(self, index):
        with self._lock:
            self.calls.append(index)
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0)  # let other threads run
        with self._lock:
            self._now -= 1
        if index in self.fails:
            raise LookupError(f"no {index}")
        return index * index


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "read-ahead"]


def wait_for(condition):
    until = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    assert condition()


COUNT = 12
QUESTIONS = st.lists(st.one_of(st.integers(0, COUNT - 1), st.none()), max_size=30)


@given(QUESTIONS, st.integers(0, 4), st.integers(0, 5), st.sets(st.integers(0, COUNT - 1), max_size=3))
def test_values_equal_those_of_the_function_in_any_order(questions, workers, ahead, fails):
    function = Noted(fails)
    values = ReadAhead(function, COUNT, workers, ahead)
    for index in questions:
        if index is None:
            values.forget()
        elif index in fails:
            with pytest.raises(LookupError, match=f"no {index}"):
                values.at(index)
        else:
            assert values.at(index) == index * index
    values.forget()
    wait_for(lambda: not threads())  # an idle thread may take a moment to end
    assert function.most <= max(workers, 1)
    assert all(0 <= index < COUNT for index in function.calls)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 6))
def test_indices_requested_in_order_are_computed_once_each(count, workers, ahead):
    function = Noted()
    values = ReadAhead(function, count, workers, ahead)
    assert [values.at(index) for index in range(count)] == [index * index for index in range(count)]
    wait_for(lambda: not threads())  # threads end by themselves when nothing is left to make
    assert sorted(function.calls) == list(range(count))


def test_requests_of_several_threads_are_all_answered():
    values = ReadAhead(Noted(), 50, 3, 4)
    wrong = []

    def ask(start, step):
        wrong.extend(i for i in range(start, 50, step) if values.at(i) != i * i)

    askers = [threading.Thread(target=ask, args=arguments) for arguments in ((0, 1), (7, 3), (30, 2), (0, 1))]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(SECONDS)
    assert not any(asker.is_alive() for asker in askers)
    assert wrong == []
    values.forget()


@pytest.mark.parametrize(("workers", "ahead"), [(1, 2), (3, 3), (4, 2), (2, 5)])
def test_the_next_values_are_computed_ahead_up_to_the_limit(workers, ahead):
    calls, go_on = [], threading.Event()

    def function(index):
        calls.append(index)
        if index:
            go_on.wait(SECONDS)
        return index

    values = ReadAhead(function, None, workers, ahead)
    assert values.at(0) == 0
    wait_for(lambda: len(calls) == 1 + min(workers, ahead))
    go_on.set()
    wait_for(lambda: not threads())
    assert sorted(calls) == list(range(ahead + 1))
    assert [values.at(index) for index in range(ahead + 1)] == list(range(ahead + 1))
    values.forget()


def test_values_that_are_not_needed_are_not_started():
    begun, go_on = threading.Event(), threading.Event()

    def function(index):
        calls.append(index)
        if index == 1:
            begun.set()
            go_on.wait(SECONDS)
        return index

    calls = []
    values = ReadAhead(function, None, 1, 5)
    values.at(0)
    assert begun.wait(SECONDS)
    values.forget(wait=False)
    assert threads() != []  # a thread cannot be ended in the middle of a value
    go_on.set()
    wait_for(lambda: not threads())
    assert calls == [0, 1]


def test_requests_out_of_order_compute_nothing_ahead():
    function, order = Noted(), [5, 3, 8, 0, 6, 2, 9]
    values = ReadAhead(function, None, 2, 3)
    values.at(0)
    values.forget()
    function.calls.clear()
    values.at(1)
    for index in order:
        values.at(index)
    values.forget()
    assert [index for index in function.calls if index in order and index > 4] == [5, 8, 6, 9]


def test_an_error_is_raised_where_its_value_is_requested():
    values = ReadAhead(Noted(fails=[2]), 5, 2, 4)
    assert [values.at(0), values.at(1)] == [0, 1]
    for _ in range(2):
        with pytest.raises(LookupError, match="no 2"):
            values.at(2)
    assert values.at(3) == 9
    values.forget()


SCRIPT = """
import os, sys, threading
from keras_bert_rebuild.kernels.asynchronous import ReadAhead

def function(index):
    if index:
        os.write(1, b"stuck ")  # print would hold the lock of stdout, which the interpreter wants at its end
        threading.Event().wait()
    return index

values = ReadAhead(function, None, 2, 3)
values.at(0)
if sys.argv[1] == "interrupt":
    values.at(1)
print("end", flush=True)
"""


def interrupt(process):
    """Interrupt until it ends: a signal just before the main thread begins to wait for a lock wakes it only with the next one."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
        return


@pytest.mark.parametrize("way", ["end", "interrupt"])
@pytest.mark.skipif(sys.platform == "win32", reason="interrupts with a signal")
@pytest.mark.slow(torch=True)
def test_a_blocked_value_does_not_keep_the_process_alive(tmp_path, way):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = start(script, way)
    if way == "interrupt":
        assert process.stdout.read(5) == "stuck"
        interrupt(process)
    code, said, error = finish(process)
    if way == "end":
        assert (code, "end" in said) == (0, True), error
    else:
        assert "KeyboardInterrupt" in error
