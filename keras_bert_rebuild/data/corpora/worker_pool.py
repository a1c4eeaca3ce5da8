"""Run tasks in worker processes that never outlive the process that started them."""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

# The package's own `__init__` would import Keras and its backend, which take seconds and hundreds of megabytes.
_START = """
import sys
sys.path[:] = sys.argv[2:]
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.data.corpora.worker_pool import serve
serve()
"""

# glibc would not reuse in one thread what another freed: memory would grow with the number of tasks.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}


def run_tasks(make, arguments, tasks, workers):
    """Yield the results of tasks as they are done.

    Args:
        make: a module-level function; in every process `make(*arguments)` returns the function that does a task. It runs without
            the package's `__init__` and must not import Keras.
        arguments: a tuple, to be pickled like tasks and results.
        tasks: an iterable, read at most one task further than there are workers.
        workers: number of processes; 1 is this one.

    Raises:
        ValueError, OSError, MemoryError: the error of a task; ChildProcessError if a process died.
    """
    if workers == 1:
        work = None
        for task in tasks:
            work = work or make(*arguments)
            result = work(task)
            del task  # before the next one is made
            yield result
        return
    pool = _Pool((make, arguments))
    threads = ThreadPoolExecutor(workers)
    try:
        running = set()
        for task in tasks:
            running.add(threads.submit(pool.run, [task]))
            del task
            if len(running) > workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.stop()
        threads.shutdown(cancel_futures=True)
        pool.close()


class _Pool:
    """Processes, started when there is work for them."""

    def __init__(self, start):
        self.start = start
        self.idle = queue.SimpleQueue()
        self.processes = []
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, box):
        """Have an idle process do the task in a list, which is emptied as soon as the task is sent; runs in a thread."""
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
        """End all processes, at once."""
        with self.lock:
            self.stopped = True
        for process in self.processes:
            process.kill()
            process.wait()

    def close(self):
        """Close the pipes, when no thread uses them any more."""
        for process in self.processes:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what a dead process did not read
                    pipe.close()

    def _new(self):
        with self.lock:
            if self.stopped:
                raise ChildProcessError("stopped.")
            command = [sys.executable, "-c", _START, str(Path(__file__).parents[2]), *sys.path]
            # In its own session a worker does not get Ctrl-C, which the main process handles.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT | os.environ, start_new_session=True
            )
            self.processes.append(process)
        with contextlib.suppress(OSError):  # of a process that died at once; its first task reports it
            pickle.dump(self.start, process.stdin, protocol=5)
        return process


def serve():
    """Read how to make the function, then tasks; write `(True, result)` or `(False, error)` for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an answer
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
    """Queue what arrives. The input ends when the main process ends, for whatever reason, and then this process ends too."""
    try:
        while True:
            received.put(pickle.load(sys.stdin.buffer))
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)
