"""Asynchronous work: predictions that the device is computing, programs being compiled, batches being copied to a device, and
values that threads compute ahead."""

import importlib
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.layers.seam import execution

# Backends with asynchronous dispatch, and their modules: `begin` returns outputs still being computed, `put` starts a copy.
MODULES = {"jax": "keras_bert_rebuild.kernels.jax_asynchronous", "torch": "keras_bert_rebuild.kernels.torch_asynchronous"}

# Guards, on every backend, the first call of a model, which creates its function; on JAX, Keras's own prediction donates variables.
_LOCKS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


def dispatched(model: Any, inputs: Any, variables: list[Any] | None = None) -> Any:
    """Start computing `model.predict_on_batch(inputs)` without waiting for it; safe to call from several threads.

    On TensorFlow, with several devices, and for a model that runs eagerly, this is `predict_on_batch`, which waits.

    Args:
        model: a Keras model.
        inputs: the inputs of a batch, already checked.
        variables: `model.variables`, if the caller has them: JAX needs them, and Keras looks through all layers for them.

    Returns:
        The outputs on the device, for `fetched`.
    """
    with _lock_of(model):
        module = MODULES.get(keras.config.backend()) if _is_compiled_for_one_device(model) else None
        if module is None:
            return model.predict_on_batch(inputs)
        return importlib.import_module(module).begin(model, inputs, variables)


def compiles_ahead(model: Any) -> bool:
    """Whether programs of a model are compiled in threads, before they are needed: on JAX and an accelerator.

    Not on a CPU: two cores compile two programs no faster than one after the other.
    """
    ahead = keras.config.backend() == "jax" and traits.runs_on_accelerator() and _is_compiled_for_one_device(model)
    return ahead and model.jit_compile


def compiled_ahead(model: Any, batches: Sequence[Any]) -> None:
    """Start compiling what `dispatched` needs for batches of these shapes, in threads; it waits for what it needs of them.

    Args:
        model: a Keras model that `compiles_ahead`.
        batches: the inputs of batches, already checked, each of another shape.
    """
    with _lock_of(model):
        importlib.import_module(MODULES["jax"]).compile_ahead(model, batches)


def train_compiled_ahead(model: Any, batches: Sequence[Any]) -> None:
    """Start compiling the training step for batches of these shapes, in threads; the first step waits for all of them.

    Args:
        model: a Keras model that `compiles_ahead`, with a new `train_function`, and with variables for all of its state.
        batches: batches as `fit` gets them, each of another shape.
    """
    if batches and not execution().rules:
        model.train_function = importlib.import_module(MODULES["jax"]).train_after_compiling(model, batches)


def _lock_of(model):
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(model, threading.Lock())


def _is_compiled_for_one_device(model):
    """Whether a model is not run eagerly and its batches are not divided over devices."""
    return isinstance(model, keras.Model) and not model.run_eagerly and keras.distribution.distribution() is None


def fetched(outputs: Any) -> Any:
    """Wait for the outputs of `dispatched` and return them as float32 NumPy arrays, or a structure of such arrays."""
    return keras.tree.map_structure(_on_host, outputs)


def _on_host(tensor):
    array = np.asarray(keras.ops.convert_to_numpy(tensor))
    return array.astype("float32", copy=False) if array.dtype.kind in "fV" else array


def put_ahead() -> Callable[[Any], Any] | None:
    """The function that starts copying an array to the accelerator and returns what a step takes; it may run in any thread.

    Returns:
        None where it would not help or Keras already does it: on a CPU, whose memory the array is in; on TensorFlow, whose steps
        take batches from a pipeline; with a `keras.distribution`, by which Keras divides a batch. Call it in the training thread,
        since Keras's distribution is per thread.
    """
    if keras.config.backend() not in MODULES or not traits.runs_on_accelerator() or keras.distribution.distribution() is not None:
        return None
    return importlib.import_module(MODULES[keras.config.backend()]).put


class ReadAhead:
    """Returns `function(index)` for any index, while threads compute the next values.

    Threads assume that the next request is for the next index. Repeats, jumps and restarts also give correct values, but waste
    prefetched ones. While requests are not consecutive, nothing is prefetched.

    A thread ends when there is nothing left to compute, and does not keep the process alive.

    Args:
        function: a function of an index, called in the threads; the same index must give the same value. Its errors are raised
            when the value is requested.
        count: indexes from this one are not prefetched; None if there is no end.
        workers: number of threads; 0 to compute every value on request.
        ahead: maximum number of prefetched values, besides the one requested last.
    """

    def __init__(self, function: Callable[[int], Any], count: int | None, workers: int, ahead: int) -> None:
        self.function, self.count, self.workers, self.ahead = function, count, workers, ahead
        self._last: int | None = None
        self._values: dict[int, Future[Any]] = {}  # values of the index requested last and of those after it, ascending
        self._threads: set[threading.Thread] = set()
        self._requesting = threading.Lock()  # one request at a time: another one may drop the value that this one waits for
        self._lock = threading.Lock()

    def at(self, index: int) -> Any:
        """The value of an index."""
        if not self.workers:
            return self.function(index)
        with self._requesting:
            return self._schedule(index).result()

    def forget(self, wait: bool = True) -> None:
        """Drop all values; the next request is treated as the first.

        Args:
            wait: wait for values that are being computed, so that no thread calls the function afterwards.
        """
        with self._requesting:
            with self._lock:
                self._last, self._values = None, {}
                threads = list(self._threads)
            if wait:
                for thread in threads:
                    thread.join()

    def _schedule(self, index):
        """Schedule a value and those after it; drop all others."""
        follows = self._last is None or index in (self._last, self._last + 1)
        stop = index + 1 + (self.ahead if follows else 0)
        if self.count is not None:
            stop = max(index + 1, min(stop, self.count))
        with self._lock:
            self._last = index
            self._values = {i: self._values.get(i) or Future() for i in range(index, stop)}
            waiting = sum(not _is_started(value) for value in self._values.values())
            for _ in range(min(waiting, self.workers - len(self._threads))):
                thread = threading.Thread(target=self._compute, name="read-ahead", daemon=True)
                thread.start()
                self._threads.add(thread)
            return self._values[index]

    def _compute(self):
        """Compute scheduled values in order until none are left; runs in a thread."""
        while (task := self._next()) is not None:
            index, value = task
            try:
                value.set_result(self.function(index))
            except BaseException as error:  # any exception, even one that would end the process, is raised for the caller
                value.set_exception(error)
            del task, value  # otherwise the thread would hold it while it computes the next value

    def _next(self):
        with self._lock:
            for index, value in self._values.items():
                if not _is_started(value):
                    value.set_running_or_notify_cancel()
                    return index, value
            self._threads.discard(threading.current_thread())
            return None


def _is_started(value):
    return value.running() or value.done()
