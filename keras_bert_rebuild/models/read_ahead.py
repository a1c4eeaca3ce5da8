"""Values of a function of an index, prefetched by threads."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


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
