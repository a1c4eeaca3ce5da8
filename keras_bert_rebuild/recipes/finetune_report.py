"""The report of a fine-tuning: numbers for programs, tables and a picture for people."""

import json
import math

from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.printable import in_markdown
from keras_bert_rebuild.recipes.confusion_picture import confusion_svg

# The files that a report is.
REPORTS = ("report.json", "report.md", "confusion.svg")
# Rows of the table of labels.
MOST_LABELS = 200


def write_report(folder, found, settings):
    """Write report.json, report.md and, where there is a confusion matrix, confusion.svg; each is there whole or not at all.

    Args:
        folder: the folder of the run.
        found: what is to be reported, plain values by name.
        settings: the resolved settings.
    """
    # JSON knows no NaN, which the correlation with a constant is.
    numbers = {part: {name: None if math.isnan(value) else value for name, value in found[part].items()} for part in _judged(found)}
    found, picture = {**found, **numbers}, "confusion" in found
    if picture:
        title = f"rows: true, columns: predicted ({_judged(found)[-1]})"
        write_text(folder / "confusion.svg", confusion_svg(found["labels"], found["confusion"], title), claimed=True)
    write_text(
        folder / "report.json", json.dumps({**found, "settings": settings}, indent=2, ensure_ascii=False) + "\n", claimed=True
    )
    write_text(folder / "report.md", report_text(found, settings, picture), claimed=True)


def report_text(found, settings, picture):
    """The report as Markdown."""
    judged = _judged(found)
    model, train, dev = (in_markdown(settings[name]) for name in ("model", "train", "dev"))
    lines = [
        f"# {in_markdown(found['task'])}",
        "",
        f"Model {model}, trained on {train} ({found['examples']['train']:,} examples), "
        f"seed {settings['seed']}. Best {found['metric']} on {dev} at step {found['best_step']:,} "
        f"of {found['steps']:,}; {found['seconds']:.0f} seconds in all, {found['train_seconds']:.0f} of them training.",
        *_in_train(found),
        "",
        f"| score | {' | '.join(judged)} |",
        f"|---|{'---:|' * len(judged)}",
    ]
    names = dict.fromkeys(name for part in judged for name in found[part])
    lines += [f"| {name} | {' | '.join(_shown(found[part].get(name)) for part in judged)} |" for name in names]
    if "classes" in found:
        lines += ["", f"On {judged[-1]}:", "", "| label | precision | recall | F1 | examples |", "|---|---:|---:|---:|---:|"]
        rows = list(found["classes"].items())
        lines += [
            f"| {_cell(label)} | {row['precision']:.4f} | {row['recall']:.4f} | {row['f1']:.4f} | {row['support']:,} |"
            for label, row in rows[:MOST_LABELS]
        ]
        if len(rows) > MOST_LABELS:
            lines.append(f"| and {len(rows) - MOST_LABELS} more in report.json | | | | |")
    if picture:
        lines += ["", "![confusion matrix](confusion.svg)"]
    lines += [
        "",
        "| setting | |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in settings.items() if value is not None),
        "",
    ]
    return "\n".join(lines)


def _in_train(found):
    """What the scores are too good by."""
    counts = [f"{count:,} of the {found['examples'][name]:,} of {name}" for name, count in found["in_train"].items() if count]
    return ["", f"Shown in training, too, are the texts of {' and '.join(counts)}."] if counts else []


def _judged(found):
    return [name for name in ("dev", "test") if name in found]


def _shown(value):
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _cell(value):
    return in_markdown(value)
