"""The report of a fine-tuning: its scores and settings as JSON and as a page, with a picture of the confusion matrix."""

import json
import math
import tempfile
from importlib.util import find_spec
from pathlib import Path

from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.explain.drawing import STYLE, TITLE
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.printable import Element, in_markdown, printable, svg_picture
from keras_bert_rebuild.pretrained.model_card import score_table, setting_table
from keras_bert_rebuild.search.index import BM25, Index
from keras_bert_rebuild.tasks.metrics.ranking import BEST
from keras_bert_rebuild.tasks.reranker import Reranker

# The files of the report.
REPORTS = ("report.json", "report.md", "confusion.svg")
# Rows of the table of labels.
MAX_LABELS = 200
# Of the confusion matrix: the side of a cell and the font size in pixels, and the maximum number of letters of a label.
CELL, FONT, MAX_LETTERS = 34, 12, 24
# The mean width of a letter in units of its size.
LETTER = 0.62
# A cell is as blue as its fraction of the row; in light mode its number is white from the fraction at which black is as legible.
DARK_FROM = 0.68
IN_CELLS = """rect { stroke: #c9c4b8; } .cell { fill: #084081; } .on-light { fill: #000000; } .on-dark { fill: #ffffff; }
@media (prefers-color-scheme: dark) { rect { stroke: #4a4a4e; } .cell { fill: #2f6fbe; } .on-light { fill: #ffffff; } }
"""


def write_report(folder, results, settings):
    """Write report.json, report.md and, where there is a confusion matrix, confusion.svg, each atomically.

    Args:
        folder: the folder of the run.
        results: the results to report, plain values by name.
        settings: the resolved settings.
    """
    # JSON has no NaN, which the correlation with a constant is.
    numbers = {
        part: {name: None if math.isnan(value) else value for name, value in results[part].items()} for part in _evaluated(results)
    }
    results, picture = {**results, **numbers}, "confusion" in results
    if picture:
        title = f"rows: true, columns: predicted ({_evaluated(results)[-1]})"
        write_text(folder / "confusion.svg", confusion_svg(results["labels"], results["confusion"], title), claimed=True)
    write_text(
        folder / "report.json", json.dumps({**results, "settings": settings}, indent=2, ensure_ascii=False) + "\n", claimed=True
    )
    write_text(folder / "report.md", report_text(results, settings, picture), claimed=True)


def report_text(results, settings, picture):
    """The report as Markdown."""
    evaluated = _evaluated(results)
    model, train, dev = (in_markdown(settings[name]) for name in ("model", "train", "dev"))
    lines = [
        f"# {in_markdown(results['task'])}",
        "",
        f"Model {model}, trained on {train} ({results['examples']['train']:,} examples), "
        f"seed {settings['seed']}. Best {results['metric']} on {dev} at step {results['best_step']:,} "
        f"of {results['steps']:,}; {results['seconds']:.0f} seconds in all, {results['train_seconds']:.0f} of them training.",
        *(
            line
            for name in ("data", "head", "scores")
            if name in results
            for line in ("", f"{name.capitalize()}: {in_markdown(results[name])}.")
        ),
        *_in_train(results),
        "",
        score_table({name: results[name] for name in (*evaluated, BM25) if name in results}),
    ]
    if BM25 in results:
        lines += ["", f"BM25 ranks the texts of {evaluated[-1]} by the words that they share with the query."]
    if "classes" in results:
        lines += ["", f"On {evaluated[-1]}:", "", "| label | precision | recall | F1 | examples |", "|---|---:|---:|---:|---:|"]
        rows = list(results["classes"].items())
        lines += [
            f"| {in_markdown(label)} | {row['precision']:.4f} | {row['recall']:.4f} | {row['f1']:.4f} | {row['support']:,} |"
            for label, row in rows[:MAX_LABELS]
        ]
        if len(rows) > MAX_LABELS:
            lines.append(f"| and {len(rows) - MAX_LABELS} more in report.json | | | | |")
    if picture:
        lines += ["", "![confusion matrix](confusion.svg)"]
    return "\n".join([*lines, "", setting_table(settings), ""])


def _in_train(results):
    """A warning about examples that are also in training, which inflates scores."""
    counts = [f"{count:,} of the {results['examples'][name]:,} of {name}" for name, count in results["in_train"].items() if count]
    return ["", f"The texts of {' and '.join(counts)} are also in training."] if counts else []


def bm25_scores(task, examples, answers):
    """What BM25, which learns nothing, scores in place of a model that ranks texts: the baseline of its training.

    Args:
        task: the task that gave the answers.
        examples: the examples of an evaluation.
        answers: the answers of the task.

    Returns:
        `{"bm25": scores}`, the scores as those of the task; empty if it ranks no texts, or LanceDB, which has BM25, is missing.
    """
    if not (isinstance(examples[0], TextGroup) and isinstance(answers[0], dict) and find_spec("lancedb")):
        return {}
    texts = (text for example in examples for text in (example.positive, *example.negatives))
    texts = list(dict.fromkeys([*texts, *(text for answer in answers for text in answer)]))
    has_candidates = isinstance(task, Reranker)  # those of a query alone are ranked
    of_query = dict.fromkeys(example.query for example in examples)
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(Path(folder) / "index")
        index.add({"id": number, "text": _in_utf8(text)} for number, text in enumerate(texts))
        for query in of_query:
            hits = index.search_words(_in_utf8(query), len(texts) if has_candidates else BEST)
            of_query[query] = {texts[hit.id]: hit.score for hit in hits}
    by_words = [of_query[example.query] for example in examples]
    if has_candidates:
        by_words = [{text: scores.get(text, 0.0) for text in answer} for answer, scores in zip(answers, by_words, strict=True)]
    return {BM25: task.scores(examples, by_words)}


def _in_utf8(text):
    """A text with a question mark for each half of a surrogate pair, which an index cannot hold."""
    return text.encode(errors="replace").decode()


def _evaluated(results):
    return [name for name in ("dev", "test") if name in results]


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
    names = [printable(label if len(label) <= MAX_LETTERS else f"{label[: MAX_LETTERS - 1]}…") for label in map(str, labels)]
    margin = int(max(map(len, names), default=1) * font * LETTER) + 24
    top, side = margin + 30, len(labels) * cell
    width, height = max(margin + side, int(12 + len(title) * TITLE * LETTER)) + 20, top + side + 20
    parts = [Element("text", title, class_="title", x=12, y=18)]
    for i, (name, row) in enumerate(zip(names, matrix, strict=True)):
        middle = i * cell + cell / 2 + font / 3
        across = f"translate({margin + middle:.1f},{top - 6}) rotate(-90)"
        parts += [
            Element("text", name, x=margin - 6, y=f"{top + middle:.1f}", text_anchor="end", font_size=font),
            Element("text", name, transform=across, font_size=font),
        ]
        whole = sum(row)
        for j, count in enumerate(row):
            share = count / whole if whole else 0.0
            x, y = margin + j * cell, top + i * cell
            said = Element("title", f"{name} predicted as {names[j]}: {count}, {share:.1%}")
            box = {"x": x, "y": y, "width": cell, "height": cell, "fill_opacity": f"{share:.3f}"}
            parts.append(Element("rect", said, class_="cell", **box))
            if count and len(labels) <= 40:
                at = {"x": x + cell / 2, "y": y + cell / 2 + 3, "class": "on-dark" if share > DARK_FROM else "on-light"}
                parts.append(Element("text", count, **at, text_anchor="middle", font_size=10 if count < 10000 else 8))
    return svg_picture(width, height, title, *parts, style=STYLE + IN_CELLS)
