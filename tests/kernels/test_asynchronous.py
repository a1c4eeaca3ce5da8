"""Predictions in two halves, programs compiled ahead and values read ahead by threads are those computed in turn."""

import signal
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest
from helpers.kernel_checks import compiled_programs
from helpers.other_process import finish, start
from helpers.small_tasks import small_encoder, small_task
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_rebuild import TextClassifier
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import (
    ReadAhead,
    compiled_ahead,
    compiles_ahead,
    dispatched,
    fetched,
    train_compiled_ahead,
)

pytestmark = pytest.mark.backend


@pytest.fixture
def rows(rng):
    ids = rng.integers(5, 20, (3, 9)).astype("int32")
    return ids, ids * 0


def test_the_outputs_are_those_of_predict_on_batch(rows):
    model = small_encoder()
    first, second = dispatched(model, rows), dispatched(model, [array[:2] for array in rows])
    expected = model.predict_on_batch(rows)
    for got, wanted in zip(fetched(first), expected, strict=True):
        np.testing.assert_allclose(got, keras.ops.convert_to_numpy(wanted), atol=1e-6)
    for got, wanted in zip(fetched(second), expected, strict=True):
        np.testing.assert_allclose(got, keras.ops.convert_to_numpy(wanted)[:2], atol=1e-6)


def test_later_weights_give_later_answers(rows):
    model = small_encoder(())
    before = fetched(dispatched(model, rows))
    kernel = next(variable for variable in model.weights if variable.path.endswith("query/kernel"))
    kernel.assign(-kernel)
    assert np.abs(fetched(dispatched(model, rows)) - before).max() > 1e-3


def test_outputs_of_half_precision_are_fetched_in_float32(rows):
    keras.config.set_dtype_policy("mixed_bfloat16")
    outputs = fetched(dispatched(small_encoder(()), rows))
    assert outputs.dtype == np.float32
    assert np.isfinite(outputs).all()


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_programs_compiled_ahead_are_those_of_predictions(rows):
    model, shorter = small_encoder(), [array[:, :5] for array in rows]
    expected = [model.predict_on_batch(each) for each in (rows, shorter)]
    with compiled_programs() as programs:
        compiled_ahead(model, [rows, shorter])
        outputs = [fetched(dispatched(model, each)) for each in (shorter, rows, rows)]
    assert programs == [("jit(answer)", "compile-ahead")] * 2
    for got, wanted in zip([*outputs[1], *outputs[2], *outputs[0]], [*expected[0], *expected[0], *expected[1]], strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_a_program_that_could_not_be_compiled_ahead_is_compiled_when_it_is_needed(rows, monkeypatch):
    import jax

    def fail(*arguments, **options):
        raise RuntimeError("the compiler has no memory")

    model = small_encoder(())
    with monkeypatch.context() as broken:
        broken.setattr(jax.stages.Lowered, "compile", fail)
        compiled_ahead(model, [rows])
    assert np.isfinite(fetched(dispatched(model, rows))).all()


@pytest.mark.parametrize("is_accelerator", [False, True])
def test_programs_are_compiled_ahead_on_jax_and_an_accelerator_unless_keras_runs_the_model_itself(is_accelerator, monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: is_accelerator)
    model, on_jax = small_encoder(()), keras.config.backend() == "jax"
    model.compile(jit_compile=True)
    assert compiles_ahead(model) == (on_jax and is_accelerator)
    model.run_eagerly = True
    assert not compiles_ahead(model)
    model.compile(jit_compile=False)
    assert not compiles_ahead(model)
    assert not compiles_ahead("a model of another library")


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_no_step_is_compiled_ahead_for_batches_that_keras_changes(monkeypatch):
    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    task = small_task(TextClassifier, labels=["cat", "dog"])
    task.compile(keras.optimizers.SGD(0.1))
    batches = task.batches(task.encode([ClassifiedText("the cat", label="cat"), ClassifiedText("the dog", label="dog")]))
    with compiled_programs() as programs:
        task.model.fit(batches, shuffle=False, verbose=0, class_weight={0: 2.0, 1: 1.0})
    assert [program for program in programs if program[0] == "jit(train_step)"] == [("jit(train_step)", "MainThread")]


def test_no_batches_compile_nothing():
    model = small_encoder(())
    train_compiled_ahead(model, [])
    assert model.train_function is None


@pytest.mark.skipif(keras.config.backend() != "jax", reason="nothing is compiled for a shape")
def test_a_training_step_that_could_not_be_compiled_ahead_is_compiled_when_it_is_needed(monkeypatch):
    import jax

    monkeypatch.setattr(traits, "runs_on_accelerator", lambda: True)
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda lowered: 1 / 0)
    task = small_task(TextClassifier, labels=["cat", "dog"])
    task.compile(keras.optimizers.SGD(0.1))
    batches = task.batches(task.encode([ClassifiedText("the cat", label="cat"), ClassifiedText("the dog", label="dog")]))
    with compiled_programs() as programs:
        (loss,) = task.model.fit(batches, shuffle=False, verbose=0).history["loss"]
    assert np.isfinite(loss)
    assert ("jit(train_step)", "MainThread") in programs


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
