"""What a worker process does: tasks from standard input, results to standard output, until the input ends."""

import os
import pickle
import queue
import signal
import sys
import threading


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
