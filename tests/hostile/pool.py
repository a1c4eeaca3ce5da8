"""Processes that open hostile files, watched from outside: how long each takes, and how much memory."""

import gc
import multiprocessing
import os
import time
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
# After this many inputs a process is replaced, so that memory that libraries retain is not counted against the next input.
INPUTS_OF_A_PROCESS = 400


class Verdict(NamedTuple):
    """The outcome of an input."""

    name: str
    outcome: str
    seconds: float
    growth: int


class Pool:
    """A process that is replaced when it dies, hangs or has done enough.

    Args:
        samples: the folder of the samples.
        scratch: a folder to write inputs to.
        mark: the file that is written if something is run.
        seconds: how long an input may take before the process is killed.
        growth: how many bytes its memory may grow before it is killed.
    """

    def __init__(self, samples, scratch, mark, seconds, growth):
        self.place = (Path(samples), Path(scratch), Path(mark))
        self.seconds, self.growth = seconds, growth
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    def judge(self, name):
        """Run an input and return its outcome."""
        if self.process is None or not self.process.is_alive() or self.done >= INPUTS_OF_A_PROCESS:
            self._begin()
        self.done += 1
        self.pipe.send(name)
        assert self._answer(120) == "made"  # writing the input does not count
        self.pipe.send("go")
        before, highest, begin = self._memory(), 0, time.monotonic()
        while not self.pipe.poll(0.01):
            seconds, highest = time.monotonic() - begin, max(highest, self._memory() - before)
            what = "time" if seconds > self.seconds else "memory" if highest > self.growth else None
            if what is not None or not self.process.is_alive():
                code = self.process.exitcode
                self._end()
                return Verdict(name, f"over the limit of {what}" if what else f"the process died, {code}", seconds, highest)
        try:
            outcome, peak = self.pipe.recv()
        except EOFError:
            self.process.join(5)
            outcome, peak = f"the process died, {self.process.exitcode}", 0
            self._end()
        return Verdict(name, outcome, time.monotonic() - begin, max(highest, peak))

    def _answer(self, seconds):
        assert self.pipe.poll(seconds), "a process did not begin"
        return self.pipe.recv()

    def _begin(self):
        self._end()
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, *self.place), daemon=True)
        self.process.start()
        other.close()
        self.done = 0
        assert self._answer(300) == "ready"

    def _end(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    def _memory(self):
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE
        except (FileNotFoundError, IndexError, ProcessLookupError):
            return 0


def work(pipe, samples, scratch, mark):
    """Take names of inputs from a pipe, write the inputs, and report their outcomes."""
    os.environ["KERAS_HOME"] = str(scratch)
    # Before the first input: the memory and time of imports do not count.
    import keras
    from hostile.actions import outcome
    from hostile.attacks import make

    keras.utils.set_random_seed(0)
    gc.collect()
    gc.freeze()  # what is imported need not be visited after every input
    pipe.send("ready")
    folder = scratch / "input"
    while True:
        try:
            name = pipe.recv()
        except EOFError:
            return
        os.chdir(scratch)
        made = make(name, samples, folder, mark)
        pipe.send("made")
        pipe.recv()
        os.chdir(folder)  # where a user who has unpacked it is
        pipe.send((outcome(made.action, made.folder, made.file), 0))
        keras.utils.clear_session()
