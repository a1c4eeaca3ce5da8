"""Values of a function of an index, computed by threads before they are requested."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class ReadAhead:
    """Returns `function(index)` for any index; meanwhile threads compute the next values.

    They assume that the next request is for the next index. A repeat, a jump or a restart gives correct values too, and only wastes
    what was computed. While requests are not consecutive, nothing is computed ahead.

    A thread ends when there is nothing left to compute, and does not keep the process alive.

    Args:
        function: of an index, called in the threads; the same index must give the same value. Its errors are raised where the
            value is requested.
        count: indexes from here on are not computed ahead; None if there is no end.
        workers: threads; 0 computes every value when it is requested.
        ahead: maximum values computed ahead, besides the one requested last.
    """

    def __init__(self, function: Callable[[int], Any], count: int | None, workers: int, ahead: int) -> None:
        self.function, self.count, self.workers, self.ahead = function, count, workers, ahead
        self._last: int | None = None
        self._values: dict[int, Future[Any]] = {}  # of the index requested last and of those after it, ascending
        self._threads: set[threading.Thread] = set()
        self._requesting = threading.Lock()  # one request at a time: the next one may forget what this one waits for
        self._lock = threading.Lock()

    def at(self, index: int) -> Any:
        """The value of an index."""
        if not self.workers:
            return self.function(index)
        with self._requesting:
            return self._schedule(index).result()

    def forget(self, wait: bool = True) -> None:
        """Forget all values; the next request is the first.

        Args:
            wait: for the values that are being computed, so that no thread calls the function afterwards. The others are dropped.
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
        """Compute what is scheduled, in order, until nothing is left; runs in a thread."""
        while (task := self._next()) is not None:
            index, value = task
            try:
                value.set_result(self.function(index))
            except BaseException as error:  # also one that would end the process: the caller decides
                value.set_exception(error)
            del task, value  # else the thread would hold it while it computes the next

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
