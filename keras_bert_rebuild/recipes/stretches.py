"""A run cut into stretches of steps, between which something is to be done."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.epoch_batches import EpochBatches
from keras_bert_rebuild.recipes.model_flops import Work


@dataclass(frozen=True)
class Stretch:
    """Steps of a run with nothing to do between them."""

    start: int
    """The first step."""

    stop: int
    """The step behind the last."""

    phase: int
    """The number of the phase that they belong to."""

    evaluates: bool
    """Whether an evaluation is due behind it."""

    saves: bool
    """Whether a checkpoint is."""


def stretches(phase_ends, start, log_steps, evaluate_steps, save_steps):
    """Cut what is left of a run.

    Args:
        phase_ends: for every phase the step behind its last, ascending.
        start: the step to begin at.
        log_steps, evaluate_steps, save_steps: something is due at the multiples of these; at the end of the run everything is.

    Returns:
        A list of `Stretch`.
    """
    last = phase_ends[-1]
    found = []
    while start < last:
        phase = next(i for i, end in enumerate(phase_ends) if start < end)
        multiples = [(start // every + 1) * every for every in (log_steps, evaluate_steps, save_steps)]
        stop = min(*multiples, phase_ends[phase])
        due = [stop == last or stop % every == 0 for every in (evaluate_steps, save_steps)]
        found.append(Stretch(start, stop, phase, *due))
        start = stop
    return found


class StretchOfBatches(EpochBatches):
    """The batches of a stretch, and how much work they are.

    Args:
        batches: a `PretrainingBatches` with an epoch that is not over before `stop`.
        start, stop: numbers of the first batch and of the one behind the last.
        workers: threads that make batches ahead; 0 for none.
    """

    def __init__(self, batches, start, stop, workers=0):
        super().__init__(repeat=True, workers=workers)
        self._batches, self._start, self._stop = batches, start, stop
        self._works = {}

    def work_of_first(self, count):
        """The `Work` of the first so many batches; more may have been made than were trained on."""
        return sum((self._works[index] for index in range(count)), Work())

    def __len__(self):
        return self._stop - self._start

    def batch(self, epoch, index):
        batch = self._batches.batch(0, self._start + index)
        self._works[index] = work_of(batch, self._batches.tables.pad_id)
        return batch


def work_of(batch, pad_id):
    """The `Work` of a batch of `PretrainingBatches`."""
    (tokens, _, chosen), _ = batch
    lengths = (tokens != pad_id).sum(axis=1)
    return Work(int(lengths.sum()), int(np.square(lengths).sum()), int(chosen.sum()), len(tokens))
