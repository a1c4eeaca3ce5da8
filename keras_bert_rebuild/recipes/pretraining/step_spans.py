"""A run cut into spans of steps; after each, a row, an evaluation or a checkpoint is due."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.batches import EpochBatches
from keras_bert_rebuild.recipes.step_costs import Work


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
    found = []
    while start < last:
        phase = next(i for i, end in enumerate(phase_ends) if start < end)
        multiples = [(start // every + 1) * every for every in (log_steps, *all_due)]
        stop = min(*multiples, phase_ends[phase])
        due = [stop == last or stop % every == 0 for every in all_due]
        found.append(StepSpan(start, stop, phase, *due))
        start = stop
    return found


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
        self._works[index] = work_of(self._batches, batch)
        return batch


def work_of(batches, batch):
    """The `Work` of a batch of a `PretrainingBatches`."""
    lengths, predictions = batches.work(batch)
    return Work(int(lengths.sum()), int(np.square(lengths).sum()), predictions, len(lengths))
