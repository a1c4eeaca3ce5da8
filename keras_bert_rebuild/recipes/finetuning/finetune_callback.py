"""What happens during a fine-tuning beside its steps: checkpoints to resume from, evaluations, and saving of the best weights."""

import math
import shutil
import time
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.data.batches import EpochBatches
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError, StoppedError
from keras_bert_rebuild.tasks.metrics.classes import LOWER_IS_BETTER
from keras_bert_rebuild.training.state.callbacks import CountedCallback
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import CheckpointWriter, SpoiledStateError
from keras_bert_rebuild.training.state.train_state import write_state


class FinetuneCheckpoints:
    """The checkpoints of a run: one after every `every` steps, and one after the last step if a signal stops it.

    Args:
        folder: the folder of the run.
        every: optimizer steps between two checkpoints.
        signals: a `StopOnSignal`.
    """

    def __init__(self, folder, every, signals):
        self.folder = CheckpointFolder(folder / "checkpoints", keep=1)
        self.every, self.signals = every, signals
        self._writer = CheckpointWriter(self.folder, traits.runs_on_accelerator())
        self._saved = None

    def restore(self, model):
        """Restore a compiled model from the newest checkpoint.

        Returns:
            The step after which it was written, 0 without a checkpoint, and the facts saved with it.
        """
        checkpoint = self.folder.newest()
        if checkpoint is None:
            return 0, None
        write_state(model, checkpoint.arrays())
        return checkpoint.step, checkpoint.facts

    def is_due(self, step):
        """Whether a checkpoint is due after a step."""
        return step % self.every == 0

    @property
    def stops(self):
        """Whether a signal has arrived."""
        return self.signals.received is not None

    def save(self, step, model, facts):
        """Write a checkpoint, or start to; an error of the previous one is raised here."""
        if self._saved == step:
            return
        self._saved = step
        try:
            self._writer.save(step, model, facts)
        except SpoiledStateError as error:
            raise NonFiniteLossError(f"After step {error.step} {error}; no checkpoint of it was written.") from None

    def finish(self, callback):
        """Wait until all is written; after a signal, also save the state after the last step of a `FinetuneCallback`.

        Raises:
            StoppedError: a signal stopped the run before its end.
        """
        step, steps = callback.step, callback.steps
        stopped = self.stops and step < steps and not callback.is_over
        if stopped:
            self.save(step, callback.model, callback.facts())
        self._writer.wait()
        if stopped:
            raise StoppedError(step, steps, self.signals.received)

    def remove(self):
        """Delete the checkpoints of a finished run: its result is the model."""
        shutil.rmtree(self.folder.path, ignore_errors=True)


class RestOfEpoch(EpochBatches):
    """The batches of an epoch, starting at one of them.

    Args:
        batches: `BucketedBatches`, or others with `batches(epoch)`.
        epoch: the number of the epoch.
        first: the index of the first batch.
    """

    def __init__(self, batches, epoch, first):
        super().__init__(start_epoch=epoch, workers=batches.made_ahead_by)
        self.of, self.first = batches, first

    def __len__(self):
        return len(self.of) - self.first

    def batches(self, epoch):
        """The `Bucket`s of all batches of the epoch."""
        return self.of.batches(epoch)

    def batch(self, epoch, index):
        return self.of.batch(epoch, self.first + index)

    def one_of_each_shape(self):
        """As of the whole epoch."""
        return self.of.one_of_each_shape()

    def __getitem__(self, index):
        if self._requested is None and index == 1:
            # Before an epoch, Keras inspects two batches to find out which dimensions vary on TensorFlow.
            lengths = [bucket.length for bucket in self.batches(self.epoch)[self.first :]]
            index = next((i for i, length in enumerate(lengths) if length != lengths[0]), index)
        return super().__getitem__(index)


COLUMNS = ("step", "epoch", "learning_rate", "loss", "examples_per_second")


# Scores by name, and the predictions in the order of the examples, None if an earlier process made them.
Evaluation = namedtuple("Evaluation", ["scores", "answers"])


def evaluate_task(task, examples, batch_size, progress=None, choose_threshold=False):
    """Predict examples and score the predictions.

    Args:
        task: a `Task`.
        examples: labelled examples.
        batch_size: rows per batch.
        progress: called with the number of rows done and the total.
        choose_threshold: tune thresholds, such as the one for no answer, to the best value on these examples.
    """
    answered = task.tuned_answers if choose_threshold else task.predict_examples
    answers = answered(examples, batch_size=batch_size, progress=progress)
    return Evaluation(task.scores(examples, answers), answers)


def chosen_metric(spec, scores, wanted=None):
    """The name of the score that selects the best checkpoint.

    Raises:
        ValueError: there is no score of the given name.
    """
    if wanted is None:
        return next(name for name in spec.metrics if name in scores)
    if wanted not in scores:
        raise ValueError(f"metric must be one of {', '.join(scores)}; got {wanted!r}.")
    return wanted


def is_better(metric, score, than, lower_is_better=LOWER_IS_BETTER):
    """Whether a score is better than another or than None; NaN is never better."""
    if math.isnan(score):
        return False
    return than is None or math.isnan(than) or (score < than if metric in lower_is_better else score > than)


@dataclass(frozen=True)
class Training:
    """A task, and what it is trained and evaluated on."""

    task: Any
    """The `Task` that is trained."""

    spec: Any
    """Its `FinetuneTask`."""

    settings: Any
    """`FinetuneSettings`."""

    examples: dict
    """The examples of training, dev and test, by name."""

    batches: Any
    """The training batches."""

    schedule: Any
    """The learning rate as a function of the completed steps, a `WarmupLinearDecay`."""

    data_line: str
    """What was understood of the data."""


class FinetuneCallback(CountedCallback):
    """Evaluates a task and saves the best weights.

    Args:
        training: the `Training` in whose `fit` it runs.
        tables: what every row is written to: a `MetricsTable` and a `RunLog`.
        report: called with every row, and while an evaluation runs with `{"step", "evaluated"}`, the fraction of rows done.
        save: called after an evaluation that is better than all previous ones.
        checkpoints: `FinetuneCheckpoints`.
        initial_step: optimizer steps completed by an earlier process.
        facts: `facts` of that process; None for a new run.
    """

    reads_logs_itself = True  # the steps whose logs are needed, see `DeviceLogs`: those with a row

    def __init__(self, training, tables, report, save, checkpoints, initial_step=0, facts=None):
        super().__init__(initial_step)
        self.training, self.settings, self.steps = training, training.settings, training.schedule.total_steps
        self.tables, self.report, self.save = tables, report, save
        self.every = self.settings.evaluate_steps or len(training.batches)
        self.metric = self.settings.metric
        self.best, self.best_score, self.best_step = None, None, 0
        self.evaluated, self.waited = 0, 0
        self.train_seconds = 0.0
        self.is_over = False
        self.checkpoints = checkpoints
        self._started = time.perf_counter()
        self._seen = self._seen_before = 0  # examples of this epoch so far, and those at the last row
        if facts is not None:
            self._restore(**facts)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._sizes = [len(bucket.indexes) for bucket in self.training.batches.batches(epoch)]
        self._seen = self._seen_before = sum(self._sizes[: self.step % len(self._sizes)])

    def on_train_batch_end(self, batch, logs=None):
        (step,) = self.count(batch)
        index = (step - 1) % len(self._sizes)
        self._seen += self._sizes[index]
        last = step == self.steps
        evaluates = last or step % self.every == 0
        saves = not last and self.checkpoints.is_due(step)
        if evaluates or saves or self.checkpoints.stops or index + 1 == len(self._sizes) or step % self.settings.log_steps == 0:
            row = self._row(step, float(logs["loss"]))
            if evaluates:
                row.update(self._evaluate(step))
            for table in self.tables:
                table.write(row)
            self.report(row)
            self.model.reset_metrics()  # so that the loss of the next row is the mean over the labels since this one
            if saves:
                self.checkpoints.save(step, self.model, self.facts())
            self._started = time.perf_counter()
        self.is_over = last or (self.settings.patience is not None and self.waited >= self.settings.patience)
        if self.is_over:
            self.trained.stop_training = True

    def finish(self):
        """Evaluate once if another callback stopped the training before the first evaluation."""
        if self.best is None:
            self.report({"step": self.step, **self._evaluate(self.step)})

    def facts(self):
        """The results so far, plain values for a checkpoint."""
        best = None if self.best is None else {"step": self.best_step, "score": self.best_score, "scores": self.best.scores}
        return {"best": best, **{name: getattr(self, name) for name in ("metric", "evaluated", "waited", "train_seconds")}}

    def _restore(self, best, metric, evaluated, waited, train_seconds):
        if best is not None:
            self.best, self.best_score, self.best_step = Evaluation(best["scores"], None), best["score"], best["step"]
        self.metric, self.evaluated, self.waited, self.train_seconds = metric, evaluated, waited, train_seconds

    def _row(self, step, loss):
        """The row of a step, from the mean loss since the previous row."""
        if not is_number(loss):
            raise NonFiniteLossError(f"The loss is NaN or infinite after step {step}; a lower learning_rate may help.")
        examples, self._seen_before = self._seen - self._seen_before, self._seen
        seconds = time.perf_counter() - self._started
        self.train_seconds += seconds
        rate = float(self.training.schedule(step - 1))  # a function of the steps completed before this one
        values = (step, round((self._epoch + self._seen / sum(self._sizes)), 4), rate, loss, examples / seconds)
        return dict(zip(COLUMNS, values, strict=True))

    def _evaluate(self, step):
        _ = self.model  # on JAX, this copies the weights from the trainer to the model
        progress = lambda done, rows: self.report({"step": step, "evaluated": done / rows})  # noqa: E731
        task, dev = self.training.task, self.training.examples["dev"]
        evaluation = evaluate_task(task, dev, self.settings.batch_size, progress, choose_threshold=True)
        self.metric = chosen_metric(self.training.spec, evaluation.scores, self.metric)
        score = evaluation.scores[self.metric]
        self.evaluated += 1
        self.waited += 1
        if self.best is None or is_better(self.metric, score, self.best_score, task.lower_is_better):
            self.best, self.best_score, self.best_step, self.waited = evaluation, score, step, 0
            self.save()
        return {f"dev_{name}": value for name, value in evaluation.scores.items()}
