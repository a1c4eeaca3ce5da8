"""A run cut into spans of steps, by a number of steps or by a time; after each, a row, an evaluation or a checkpoint is due."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.batches import EpochBatches
from keras_bert_rebuild.recipes.step_costs import Work
from keras_bert_rebuild.training.distributed.hosts import gathered

# Optimizer steps of the first spans after a start and in a phase: one that may include compilation, then the first to be timed.
FIRST = (1, 2)

# A span is at most this fraction of the remaining steps, so that the clock is checked after each of the last steps.
PART = 20

# Default number of evaluations and checkpoints, and the maximum fraction of the time that they may take; beyond it there are fewer.
TIMES, SHARE = 10, 0.1

# The factor by which each new span reduces the weight of earlier timings.
MEMORY = 0.8


@dataclass(frozen=True)
class StepSpan:
    """Consecutive steps of a run that nothing interrupts."""

    start: int
    """The first step."""

    stop: int
    """The step after the last."""

    phase: int
    """The number of the phase that they belong to."""

    evaluates: bool
    """Whether an evaluation is due after it."""

    saves: bool
    """Whether a checkpoint is due after it."""

    probes: bool = False
    """Whether probes are due after it."""


def step_spans(phase_ends, start, log_steps, evaluate_steps, save_steps, probe_steps=None):
    """Cut the rest of a run into spans.

    Args:
        phase_ends: for every phase the step after its last, ascending.
        start: the step to start at.
        log_steps, evaluate_steps, save_steps, probe_steps: a row, an evaluation, a checkpoint or probes are due at multiples of
            these, and all of them at the end of the run. None for no probes.

    Returns:
        A list of `StepSpan`.
    """
    last = phase_ends[-1]
    all_due = [evaluate_steps, save_steps, *([] if probe_steps is None else [probe_steps])]
    spans = []
    while start < last:
        phase = next(i for i, end in enumerate(phase_ends) if start < end)
        multiples = [(start // every + 1) * every for every in (log_steps, *all_due)]
        stop = min(*multiples, phase_ends[phase])
        due = [stop == last or stop % every == 0 for every in all_due]
        spans.append(StepSpan(start, stop, phase, *due))
        start = stop
    return spans


class SpanOfBatches(EpochBatches):
    """The batches of a span of steps, and their amount of work.

    Args:
        batches: a `PretrainingBatches` whose epoch does not end before `stop`.
        start, stop: indices of the first batch and of the one after the last.
        workers: threads that prepare batches ahead; 0 for none.
    """

    def __init__(self, batches, start, stop, workers=0):
        super().__init__(repeat=True, workers=workers)
        self._batches, self._start, self._stop = batches, start, stop
        self._works = {}

    def work_of_first(self, count):
        """The `Work` of the first `count` batches; more may have been prepared than were trained on."""
        return sum((self._works[index] for index in range(count)), Work())

    def __len__(self):
        return self._stop - self._start

    def batch(self, epoch, index):
        batch = self._batches.batch(0, self._start + index)
        lengths, predictions = self._batches.work(batch)
        self._works[index] = Work(int(lengths.sum()), int(np.square(lengths).sum()), predictions, len(lengths))
        return batch


class TimeBudget:
    """The time of a run, summed over all its starts, and the steps that fit into it.

    After every span it checks the clock. The number of remaining steps is the remaining time, minus that of the remaining
    evaluations and checkpoints, divided by the time of a step. If it differs from the number expected so far, the schedule is
    corrected from this step on (`ProgressSchedule.correct`) and the correction is recorded. The schedule is thus a function of the
    step and of the checkpoint: a resumed run has the learning rate that it would have had, until the next correction.

    Args:
        minutes: the time of the run.
        schedule: its `ProgressSchedule`.
        shares: the fraction of the time for every phase; their sum is 1.
        sizes: the tokens per step of every phase, for a first estimate of its speed.
        accumulation: batches per optimizer step.
        log_steps: maximum number of optimizer steps between two rows.
        evaluate_steps, save_steps, probe_steps: an evaluation, a checkpoint or probes are due at multiples of these; None for ten
            in the run, or fewer if they would take more than a tenth of the time.
        clock: a function that returns seconds; None for the clock of the machine.
        started: the clock when the run began; None for now.
    """

    def __init__(
        self,
        minutes: float,
        schedule: Any,
        shares: Sequence[float],
        sizes: Sequence[int],
        accumulation: int,
        log_steps: int,
        evaluate_steps: int | None = None,
        save_steps: int | None = None,
        probe_steps: int | None = None,
        clock: Callable[[], float] | None = None,
        started: float | None = None,
    ) -> None:
        self.seconds, self.schedule, self.accumulation, self.log_steps = 60.0 * minutes, schedule, accumulation, log_steps
        self.every = (evaluate_steps, save_steps, probe_steps)
        self.until = [sum(shares[: i + 1]) for i in range(len(shares) - 1)] + [1.0]
        self.sizes = sizes
        self.clock = clock or time.monotonic
        self.origin = self.clock() if started is None else started
        self.ends: list[int] = []
        """For every finished phase, the batch after its last."""
        self.corrections: list[list[float]] = []
        """Step, seconds used, progress and expected last step at every correction."""
        self.line = (0, 0.0, schedule.expected_steps)
        """Step and progress of the last correction, and the expected last step."""
        self._speed = [0.0, 0.0]  # seconds and steps, the earlier ones less
        self._cost = 0.0  # seconds of the last interruption: an evaluation, a checkpoint, probes or several of these
        self._next = 1 / TIMES  # the progress after which they are due again
        self._compiled = 0.0
        self._trained = 0.0

    @property
    def expected_steps(self) -> int:
        """The currently expected number of optimizer steps of the run."""
        return self.line[2]

    def used(self) -> float:
        """Seconds used so far, by all starts; on several hosts, those of host 0."""
        return _of_host_0(self.clock() - self.origin)

    def facts(self) -> dict[str, Any]:
        """The state that a checkpoint needs to resume; called by the host that writes it."""
        own = {name: list(getattr(self, name)) for name in ("ends", "corrections", "line")}
        return {"seconds": self.clock() - self.origin, **own, "speed": list(self._speed), "cost": self._cost, "next": self._next}

    def restore(self, facts: dict[str, Any]) -> None:
        """Resume from the state of a checkpoint; the time since this start of the run counts, too."""
        self.origin -= facts["seconds"]
        self.ends, self.corrections, self.line = list(facts["ends"]), [list(c) for c in facts["corrections"]], tuple(facts["line"])
        self._speed, self._cost, self._next = list(facts["speed"]), facts["cost"], facts["next"]

    def trained(self) -> None:
        """Note that the batches of a span are done, and that what is due after them begins."""
        self._trained = self.used()

    def compiled(self, seconds: float) -> None:
        """Note by how many seconds compilation prolonged an evaluation."""
        self._compiled = _of_host_0(max(seconds, 0.0))

    def progress(self, step: int) -> float:
        """The progress after some optimizer steps."""
        since, begun, until = self.line
        return min(begun + (1.0 - begun) * ((step - since) / max(until - since, 1)), 1.0)

    def spans(self, start: int) -> Iterator[StepSpan]:
        """Iterate over the spans of the rest of the run; each is chosen on demand, when the previous one is done and evaluated.

        Args:
            start: the first batch.
        """
        phase, measured, at = len(self.ends), 0, start
        while True:
            step = at // self.accumulation
            done = self.progress(step)
            if done >= 1.0:
                return
            if done >= self.until[phase] and phase < len(self.until) - 1:
                self.ends.append(at)
                phase, measured = phase + 1, 0
                self._guess_speed(phase)
                continue
            count = self._count(step, phase, measured)
            stop = (step + count) * self.accumulation  # also from the middle of a step, if a signal stopped the run there
            due = self._due(step + count)
            before = self.used()
            yield StepSpan(at, stop, phase, *due)
            now = self.used()
            if measured:  # otherwise its time may include compilation
                self._measure(before, now, (stop - at) / self.accumulation, any(due))
            if self.progress(step + count) >= self._next - 1e-9:
                tenth = (int(TIMES * self.progress(step + count) + 1e-9) + 1) / TIMES
                self._next = max(tenth, self.progress(step + count) + self._cost / (SHARE * self.seconds))
            measured, at = measured + 1, stop
            if self._speed[1]:
                self._correct(step + count, now)

    def _count(self, step, phase, measured):
        """The optimizer steps of the next span."""
        left = self.expected_steps - step
        count = FIRST[measured] if measured < len(FIRST) else max(min(self.log_steps, left // PART), 1)
        if phase < len(self.until) - 1:  # to the last step of the phase
            slope = (1.0 - self.line[1]) / max(self.line[2] - self.line[0], 1)
            count = min(count, max(int((self.until[phase] - self.progress(step)) / slope) + 1, 1))
        multiples = [(step // every + 1) * every - step for every in self.every if every is not None]
        return min(count, left, *multiples)

    def _due(self, stop):
        """Whether an evaluation, a checkpoint and probes are due after a step; all are at the end of the run."""
        last = stop >= self.expected_steps
        passed = self.progress(stop) >= self._next - 1e-9
        return [last or (passed if every is None else stop % every == 0) for every in self.every]

    def _measure(self, before, now, steps, due):
        """Record the time of a span for the speed, and separately the time of what was due after it."""
        seconds = (self._trained if due else now) - before
        if due:
            self._cost = max(now - self._trained - self._compiled, 0.0)
            self._compiled = 0.0
        self._speed = [MEMORY * old + new for old, new in zip(self._speed, (seconds, steps), strict=True)]

    def _guess_speed(self, phase):
        """Estimate the time of a step of the next phase from its tokens; the first timed step will outweigh this estimate."""
        seconds, steps = self._speed
        self._speed = [0.1 * seconds / max(steps, 1) * self.sizes[phase] / self.sizes[phase - 1], 0.1] if steps else [0.0, 0.0]

    def _correct(self, step, now):
        """Correct the expected last step by the remaining time."""
        progress = self.progress(step)
        if progress >= 1.0:
            return
        ahead = max(self._times_left(step, every) for every in self.every) * self._cost
        left = max(round((self.seconds - now - ahead) / (self._speed[0] / self._speed[1])), 1)
        if step + left != self.expected_steps:
            self.line = (step, progress, step + left)
            self.corrections.append([step, round(now, 3), progress, step + left])
            self.schedule.correct(*self.line)

    def _times_left(self, step, every):
        """How often an evaluation or a checkpoint is still due, including the one at the end."""
        if every is None:
            interval = max(1 / TIMES, self._cost / (SHARE * self.seconds))
            return 1 + max(math.ceil((1.0 - self._next) / interval - 1e-6), 0)
        return max(self.expected_steps - step, 1) // every + 1


class FirstBatch(keras.callbacks.Callback):
    """How much longer the first batch of an evaluation takes than the others: in the first evaluation, it includes compilation."""

    reads_logs_itself = True  # needs the logs of no step; see `DeviceLogs`
    compiled = 0.0
    """Seconds; 0 until there were two batches."""

    def on_test_begin(self, logs=None):
        self._begun, self._first, self._others = time.monotonic(), None, 0

    def on_test_batch_end(self, batch, logs=None):
        if self._first is None:
            self._first = time.monotonic() - self._begun
        else:
            self._others += 1

    def on_test_end(self, logs=None):
        if self._others:
            self.compiled = self._first - (time.monotonic() - self._begun - self._first) / self._others


def _of_host_0(number):
    """The value of a number on host 0, sent to all hosts."""
    return float(gathered([round(number * 1e6)]).reshape(-1)[0]) / 1e6  # only whole numbers can be sent
