"""The callback of a fine-tuning: the curve, evaluations, the best checkpoint, early stopping."""

import math
import time
from collections import namedtuple

import keras

from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError
from keras_bert_rebuild.tasks.metrics.classes import LOWER_IS_BETTER
from keras_bert_rebuild.training.state.callbacks import CountedCallback

COLUMNS = ("step", "epoch", "learning_rate", "loss", "examples_per_second")


# Numbers by the name of the score, and the answers in the order of the examples.
Evaluation = namedtuple("Evaluation", ["scores", "answers"])


def evaluate_task(task, examples, batch_size, progress=None, choose_threshold=False):
    """Answer examples and compare with the right answers.

    Args:
        task: a `Task`.
        examples: examples with their right answers.
        batch_size: rows of a batch.
        progress: called with the rows done and all rows.
        choose_threshold: tune thresholds, such as when to give no answer, to the best value for these examples.
    """
    answered = task.tuned_answers if choose_threshold else task.predict_examples
    answers = answered(examples, batch_size=batch_size, progress=progress)
    return Evaluation(task.scores(examples, answers), answers)


def chosen_metric(spec, scores, wanted=None):
    """The score that checkpoints are compared by.

    Raises:
        ValueError: there is no score of the wanted name.
    """
    if wanted is None:
        return next(name for name in spec.metrics if name in scores)
    if wanted not in scores:
        raise ValueError(f"metric must be one of {', '.join(scores)}; got {wanted!r}.")
    return wanted


def is_better(metric, score, than, lower_is_better=LOWER_IS_BETTER):
    """Whether a score is better than another one, or than None; NaN never is."""
    if math.isnan(score):
        return False
    return than is None or math.isnan(than) or (score < than if metric in lower_is_better else score > than)


class FinetuneCallback(CountedCallback):
    """Evaluates a task and saves the best weights.

    Args:
        task: the task that is trained.
        spec: its `FinetuneTask`.
        settings: `FinetuneSettings`.
        batches: the batches that it is trained on.
        dev: examples to evaluate on.
        schedule: the rate as a function of the steps done before, a `WarmupLinearDecay`.
        table: a `MetricsTable` for the rows.
        report: called with every row, and with `{"step", "evaluated"}`, the fraction of the rows, while an evaluation runs.
        save: called when an evaluation was better than all before.
    """

    def __init__(self, task, spec, settings, batches, dev, schedule, table, report, save):
        super().__init__()
        self.task, self.spec, self.settings, self.batches, self.dev = task, spec, settings, batches, dev
        self.table, self.report, self.save = table, report, save
        self.schedule, self.steps = schedule, schedule.total_steps
        self.every = settings.evaluate_steps or len(batches)
        self.metric = settings.metric
        self.best, self.best_score, self.best_step = None, None, 0
        self.evaluated, self.waited = 0, 0
        self.train_seconds = 0.0
        self._started = time.perf_counter()
        self._seen = self._seen_before = 0  # examples of this epoch so far, and until the last row

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._seen, self._seen_before = epoch, 0, 0
        self._sizes = [len(bucket.indexes) for bucket in self.batches.batches(self.batches.epoch)]

    def on_train_batch_end(self, batch, logs=None):
        (step,) = self.count(batch)
        self._seen += self._sizes[batch]
        last = step == self.steps
        evaluates = last or step % self.every == 0
        ends_epoch = batch + 1 == len(self._sizes)
        if evaluates or ends_epoch or step % self.settings.log_steps == 0:
            row = self._row(step, float(logs["loss"]))
            if evaluates:
                row.update(self._evaluate(step))
            self.table.write(row)
            self.report(row)
            self.model.reset_metrics()  # so that the loss of the next row is the mean over the labels after this one
            self._started = time.perf_counter()
        if last or (self.settings.patience is not None and self.waited >= self.settings.patience):
            self.trained.stop_training = True

    def _row(self, step, loss):
        """The row of a step, from the mean loss since the row before."""
        if not is_number(loss):
            raise NonFiniteLossError(f"The loss is not a number after step {step}; a lower learning_rate may help.")
        examples, self._seen_before = self._seen - self._seen_before, self._seen
        seconds = time.perf_counter() - self._started
        self.train_seconds += seconds
        rate = float(keras.ops.convert_to_numpy(self.schedule(step - 1)))  # of the steps done before this one
        values = (step, round((self._epoch + self._seen / sum(self._sizes)), 4), rate, loss, examples / seconds)
        return dict(zip(COLUMNS, values, strict=True))

    def _evaluate(self, step):
        _ = self.model  # on JAX, this fetches the weights from the trainer
        progress = lambda done, rows: self.report({"step": step, "evaluated": done / rows})  # noqa: E731
        evaluation = evaluate_task(self.task, self.dev, self.settings.batch_size, progress, choose_threshold=True)
        self.metric = chosen_metric(self.spec, evaluation.scores, self.metric)
        score = evaluation.scores[self.metric]
        self.evaluated += 1
        self.waited += 1
        if self.best is None or is_better(self.metric, score, self.best_score, self.task.lower_is_better):
            self.best, self.best_score, self.best_step, self.waited = evaluation, score, step, 0
            self.save()
        return {f"dev_{name}": value for name, value in evaluation.scores.items()}
