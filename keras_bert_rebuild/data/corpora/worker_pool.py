"""Run tasks in worker processes that never outlive the process that started them."""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

# The package's own `__init__` would import Keras and its backend: seconds and hundreds of megabytes per process.
_START = """
import sys
sys.path[:] = sys.argv[2:]
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.worker_pool import serve
serve()
"""

# glibc does not reuse in one thread what another freed: memory would grow with the number of tasks.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}


def mapped(make, arguments, tasks, workers):
    """Yield the results of tasks in order.

    Args:
        make: a module-level function; `make(*arguments)`, called in every process, returns the function that runs a task. It is
            imported without the package's `__init__` and must not import Keras, unless workers are a cluster's with a model.
        arguments: a tuple; pickled, like tasks and results.
        tasks: an iterable, read at most `workers + 1` tasks ahead of the results.
        workers: number of processes, 1 to run in this process; or a `RayCluster`. A result that is an iterator is read lazily in
            this process, and comes from a cluster as a list, or as an array of arrays of one shape.

    Raises:
        ValueError, OSError, MemoryError: the error of a task; ChildProcessError if a process died.
    """
    if not isinstance(workers, int):
        yield from workers.mapped(make, arguments, tasks)
        return
    if workers == 1:
        work = None
        for task in tasks:
            work = work or make(*arguments)
            result = work(task)
            del task  # free it before the next one is made
            yield result
        return
    pool = _Pool((make, arguments))
    threads = ThreadPoolExecutor(workers)
    try:
        running = deque()
        for task in tasks:
            running.append(threads.submit(pool.run, [task]))
            del task
            if sum(not future.done() for future in running) > workers:
                wait([future for future in running if not future.done()], return_when=FIRST_COMPLETED)
            while running and (running[0].done() or len(running) > 2 * workers):
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.stop()
        threads.shutdown(cancel_futures=True)
        pool.close()


class _Pool:
    """Worker processes, each started when there is work for it."""

    def __init__(self, start):
        self.start = start
        self.idle = queue.SimpleQueue()
        self.processes = []
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, box):
        """Have an idle process run the task in a list, which is emptied once the task has been sent; called in a thread."""
        try:
            process = self.idle.get_nowait()
        except queue.Empty:
            process = self._new()
        try:
            pickle.dump(box.pop(), process.stdin, protocol=5)
            process.stdin.flush()
            done, result = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError, ValueError):
            raise ChildProcessError(
                f"a worker process ended with code {process.wait()}; run the same command again to resume from here."
            ) from None
        if not done:
            raise result
        self.idle.put(process)
        return result

    def stop(self):
        """Kill all processes."""
        with self.lock:
            self.stopped = True
        for process in self.processes:
            process.kill()
            process.wait()

    def close(self):
        """Close the pipes, once no thread uses them."""
        for process in self.processes:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # unread input of a dead process
                    pipe.close()

    def _new(self):
        with self.lock:
            if self.stopped:
                raise ChildProcessError("stopped.")
            command = [sys.executable, "-c", _START, str(Path(__file__).parents[2]), *sys.path]
            # In its own session a worker does not receive Ctrl-C, which the main process handles.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT | os.environ, start_new_session=True
            )
            self.processes.append(process)
        with contextlib.suppress(OSError):  # the process died at once; its first task reports that
            pickle.dump(self.start, process.stdin, protocol=5)
        return process


def serve():
    """Worker process: receive the function to make, then tasks; write `(True, result)` or `(False, error)` for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with results
    received = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(received,), daemon=True).start()
    make, arguments = received.get()
    work = None
    while True:
        task = received.get()
        try:
            work = work or make(*arguments)
            answer = True, work(task)
        except (ValueError, OSError, MemoryError) as error:
            answer = False, error
        del task
        pickle.dump(answer, answers)
        answers.flush()


def _receive(received):
    """Queue incoming tasks. When the main process ends, for whatever reason, the input ends, and this process exits."""
    try:
        while True:
            received.put(pickle.load(sys.stdin.buffer))
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)
