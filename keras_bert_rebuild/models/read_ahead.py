"""Values of a function of an index, made by threads before they are asked for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class ReadAhead:
    """Answers with `function(index)`, whatever was asked for before; threads make the next values in the meantime.

    What they make ahead is a guess and no more: that the next question is for the next index. A repeat, a jump or a new start is
    answered as rightly, and costs what was made for nothing. While the questions do not follow each other nothing is made ahead.

    A thread ends when there is nothing left to make, and keeps no process alive.

    Args:
        function: of an index, called in the threads; the same index must give the same value. What it raises is raised where the
            value is asked for.
        count: indexes from here on are not made ahead; None where there is no end.
        workers: threads; 0 makes every value where it is asked for.
        ahead: values made ahead, at the most; the one asked for last is held besides.
    """

    def __init__(self, function: Callable[[int], Any], count: int | None, workers: int, ahead: int) -> None:
        self.function, self.count, self.workers, self.ahead = function, count, workers, ahead
        self._last: int | None = None
        self._values: dict[int, Future[Any]] = {}  # of the index asked for last and of those behind it, ascending
        self._threads: set[threading.Thread] = set()
        self._asking = threading.Lock()  # one question at a time: the next one may forget what this one waits for
        self._changing = threading.Lock()

    def at(self, index: int) -> Any:
        """The value of an index."""
        if not self.workers:
            return self.function(index)
        with self._asking:
            return self._wanted(index).result()

    def forget(self, wait: bool = True) -> None:
        """Forget all values; the next question is the first.

        Args:
            wait: for the values that are being made: with it, no thread calls the function any more. Those not begun never are.
        """
        with self._asking:
            with self._changing:
                self._last, self._values = None, {}
                threads = list(self._threads)
            if wait:
                for thread in threads:
                    thread.join()

    def _wanted(self, index):
        """Have a value made, and those behind it; let go of all others."""
        follows = self._last is None or index in (self._last, self._last + 1)
        stop = index + 1 + (self.ahead if follows else 0)
        if self.count is not None:
            stop = max(index + 1, min(stop, self.count))
        with self._changing:
            self._last = index
            self._values = {i: self._values.get(i) or Future() for i in range(index, stop)}
            waiting = sum(not _is_begun(value) for value in self._values.values())
            for _ in range(min(waiting, self.workers - len(self._threads))):
                thread = threading.Thread(target=self._make, name="read-ahead", daemon=True)
                thread.start()
                self._threads.add(thread)
            return self._values[index]

    def _make(self):
        """Make what is wanted, in its order, until there is nothing more; runs in a thread."""
        while (task := self._next()) is not None:
            index, value = task
            try:
                value.set_result(self.function(index))
            except BaseException as error:  # also one that would end a process: that is for the asker to decide
                value.set_exception(error)
            del task, value  # else the thread would hold it while it makes the next

    def _next(self):
        with self._changing:
            for index, value in self._values.items():
                if not _is_begun(value):
                    value.set_running_or_notify_cancel()
                    return index, value
            self._threads.discard(threading.current_thread())
            return None


def _is_begun(value):
    return value.running() or value.done()
