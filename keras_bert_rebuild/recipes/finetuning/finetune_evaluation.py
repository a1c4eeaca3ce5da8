"""The evaluations of a fine-tuning: the callback that runs them and saves the best weights, and their report."""

import json
import math
import time
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.files.printable import in_markdown, in_xml
from keras_bert_rebuild.recipes.pretraining.training_run import NonFiniteLossError
from keras_bert_rebuild.tasks.metrics.classes import LOWER_IS_BETTER
from keras_bert_rebuild.training.state.callbacks import CountedCallback

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


class FinetuneCallback(CountedCallback):
    """Evaluates a task and saves the best weights.

    Args:
        training: the `Training` in whose `fit` it runs.
        table: a `MetricsTable` for the rows.
        report: called with every row, and while an evaluation runs with `{"step", "evaluated"}`, the fraction of rows done.
        save: called after an evaluation that is better than all previous ones.
        checkpoints: `FinetuneCheckpoints`.
        initial_step: optimizer steps completed by an earlier process.
        facts: `facts` of that process; None for a new run.
    """

    reads_logs_itself = True  # the steps whose logs are needed, see `DeviceLogs`: those with a row

    def __init__(self, training, table, report, save, checkpoints, initial_step=0, facts=None):
        super().__init__(initial_step)
        self.training, self.settings, self.steps = training, training.settings, training.schedule.total_steps
        self.table, self.report, self.save = table, report, save
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
            self.table.write(row)
            self.report(row)
            self.model.reset_metrics()  # so that the loss of the next row is the mean over the labels since this one
            if saves:
                self.checkpoints.save(step, self.model, self.facts())
            self._started = time.perf_counter()
        self.is_over = last or (self.settings.patience is not None and self.waited >= self.settings.patience)
        if self.is_over:
            self.trained.stop_training = True

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


# The files of the report.
REPORTS = ("report.json", "report.md", "confusion.svg")
# Rows of the table of labels.
MAX_LABELS = 200
# Of the confusion matrix: the side of a cell and the font size in pixels, and the maximum number of letters of a label.
CELL, FONT, MAX_LETTERS = 34, 12, 24
# The mean width of a letter in units of its size.
LETTER = 0.62
_STYLE = "font-family:sans-serif;font-size:{}px;fill:#222"


def write_report(folder, found, settings):
    """Write report.json, report.md and, where there is a confusion matrix, confusion.svg, each atomically.

    Args:
        folder: the folder of the run.
        found: the results to report, plain values by name.
        settings: the resolved settings.
    """
    # JSON has no NaN, which the correlation with a constant is.
    numbers = {
        part: {name: None if math.isnan(value) else value for name, value in found[part].items()} for part in _evaluated(found)
    }
    found, picture = {**found, **numbers}, "confusion" in found
    if picture:
        title = f"rows: true, columns: predicted ({_evaluated(found)[-1]})"
        write_text(folder / "confusion.svg", confusion_svg(found["labels"], found["confusion"], title), claimed=True)
    write_text(
        folder / "report.json", json.dumps({**found, "settings": settings}, indent=2, ensure_ascii=False) + "\n", claimed=True
    )
    write_text(folder / "report.md", report_text(found, settings, picture), claimed=True)


def report_text(found, settings, picture):
    """The report as Markdown."""
    evaluated = _evaluated(found)
    model, train, dev = (in_markdown(settings[name]) for name in ("model", "train", "dev"))
    lines = [
        f"# {in_markdown(found['task'])}",
        "",
        f"Model {model}, trained on {train} ({found['examples']['train']:,} examples), "
        f"seed {settings['seed']}. Best {found['metric']} on {dev} at step {found['best_step']:,} "
        f"of {found['steps']:,}; {found['seconds']:.0f} seconds in all, {found['train_seconds']:.0f} of them training.",
        *_in_train(found),
        "",
        f"| score | {' | '.join(evaluated)} |",
        f"|---|{'---:|' * len(evaluated)}",
    ]
    names = dict.fromkeys(name for part in evaluated for name in found[part])
    lines += [f"| {name} | {' | '.join(_shown(found[part].get(name)) for part in evaluated)} |" for name in names]
    if "classes" in found:
        lines += ["", f"On {evaluated[-1]}:", "", "| label | precision | recall | F1 | examples |", "|---|---:|---:|---:|---:|"]
        rows = list(found["classes"].items())
        lines += [
            f"| {in_markdown(label)} | {row['precision']:.4f} | {row['recall']:.4f} | {row['f1']:.4f} | {row['support']:,} |"
            for label, row in rows[:MAX_LABELS]
        ]
        if len(rows) > MAX_LABELS:
            lines.append(f"| and {len(rows) - MAX_LABELS} more in report.json | | | | |")
    if picture:
        lines += ["", "![confusion matrix](confusion.svg)"]
    lines += [
        "",
        "| setting | |",
        "|---|---|",
        *(f"| {name} | {in_markdown(value)} |" for name, value in settings.items() if value is not None),
        "",
    ]
    return "\n".join(lines)


def _in_train(found):
    """A warning about examples that are also in training, which inflates scores."""
    counts = [f"{count:,} of the {found['examples'][name]:,} of {name}" for name, count in found["in_train"].items() if count]
    return ["", f"The texts of {' and '.join(counts)} are also in training."] if counts else []


def _evaluated(found):
    return [name for name in ("dev", "test") if name in found]


def _shown(value):
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def confusion_svg(labels, matrix, title=""):
    """A picture of a confusion matrix: rows are true labels, columns predicted ones.

    The shade of a cell is its fraction of the row; numbers are counts, left out for more than forty labels.

    Args:
        labels: names of rows and columns.
        matrix: counts, a list of rows.
        title: a line above it.

    Returns:
        The text of an SVG file.
    """
    cell = CELL if len(labels) <= 40 else max(6, 1400 // len(labels))
    font = min(FONT, max(5, cell - 2))
    names = [in_xml(label if len(label) <= MAX_LETTERS else f"{label[: MAX_LETTERS - 1]}…") for label in map(str, labels)]
    margin = int(max(map(len, names), default=1) * font * LETTER) + 24
    top, side = margin + 30, len(labels) * cell
    width, height = max(margin + side, int(12 + len(title) * (FONT + 1) * LETTER)) + 20, top + side + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="18" style="{_STYLE.format(FONT + 1)}">{in_xml(title)}</text>',
    ]
    for i, (name, row) in enumerate(zip(names, matrix, strict=True)):
        middle = i * cell + cell / 2 + font / 3
        parts.append(
            f'<text x="{margin - 6}" y="{top + middle:.1f}" text-anchor="end" style="{_STYLE.format(font)}">{name}</text>'
            f'<text transform="translate({margin + middle:.1f},{top - 6}) rotate(-90)" style="{_STYLE.format(font)}">{name}</text>'
        )
        whole = sum(row)
        for j, count in enumerate(row):
            share = count / whole if whole else 0.0
            # White to a dark blue, the numbers white where it is dark.
            red, green, blue = (round(255 + share * (end - 255)) for end in (8, 64, 129))
            x, y = margin + j * cell, top + i * cell
            parts.append(
                f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="rgb({red},{green},{blue})" stroke="#ddd">'
                f"<title>{name} predicted as {names[j]}: {count}, {share:.1%}</title></rect>"
            )
            if count and len(labels) <= 40:
                ink = "#fff" if share > 0.5 else "#222"
                parts.append(
                    f'<text x="{x + cell / 2}" y="{y + cell / 2 + 3}" text-anchor="middle" '
                    f'style="font-family:sans-serif;font-size:{10 if count < 10000 else 8}px;fill:{ink}">{count}</text>'
                )
    return "\n".join([*parts, "</svg>", ""])
