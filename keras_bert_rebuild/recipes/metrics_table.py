"""The curve of a run: as a table on disk, and drawn as one SVG file."""

import csv
import io
import math
from pathlib import Path

from keras_bert_rebuild.data.tables import read_cells
from keras_bert_rebuild.data.text_files import location
from keras_bert_rebuild.explain.drawing import STYLE, WIDE, Chart
from keras_bert_rebuild.files.durable import naming_full_disk, write_text
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import Element, printable, svg_picture

# The largest float32: no number of a run is larger, and what is drawn must not overflow.
LARGEST = 3.5e38


class MetricsTable:
    """Rows of numbers in a .csv file, each written as soon as it is known.

    Args:
        path: the file; rows that earlier starts of the run wrote are retained.
        columns: names of the columns; the first is the step.
        step: rows after this step are removed, since the run resumes here and writes them again.

    Raises:
        ValueError: an existing file has other columns, is not csv, or a step is not a whole number.
    """

    def __init__(self, path, columns, step=0):
        self.path, self.columns = Path(path), tuple(columns)
        earlier = [row for line, row in self._read() if _step(row[0], self.path, line) <= step]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *earlier])
        write_text(self.path, text.getvalue(), claimed=True)

    def write(self, values):
        """Add a row.

        Args:
            values: numbers by column; a column without one stays empty.
        """
        row = [_shown(values.get(name)) for name in self.columns]
        with naming_full_disk(self.path), self.path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(row)

    def _read(self):
        if not self.path.is_file():
            return []
        header, rows = _read_rows(self.path)
        if not header:
            return []
        if tuple(header) != self.columns:
            raise ValueError(f"expected the columns {', '.join(self.columns)}; {self.path} has {', '.join(header)}.")
        # A killed process may have left an incomplete row.
        return [(line, row) for line, row in rows if len(row) == len(self.columns)]


def _read_rows(path):
    """The names of columns in a .csv file, and its rows as `(line, cells)`; both empty for an empty file."""
    rows = read_cells(path, ",") if path.stat().st_size else []
    check_limit("metrics_columns", len(rows[0][1]) if rows else 0, printable(path))
    return (rows[0][1], rows[1:]) if rows else ([], [])


def _step(text, path, line):
    value = _number("step", text, path, line)
    if not value.is_integer():
        raise ValueError(f"{location(path, line)}: step must be a whole number; got {text!r:.60}.")
    return int(value)


def _number(name, text, path, line):
    """A number of a run; NaN for an empty text and for what no run can have measured."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        raise ValueError(f"{location(path, line)}: {name} must be a number; got {text!r:.60}.") from None
    return value if abs(value) <= LARGEST else math.nan


def _shown(value):
    if value is None:
        return ""
    return str(value) if isinstance(value, (int, str)) else f"{value:.6g}"


# Title of a chart, and its curves: column, label, class of its line.
CHARTS = (
    ("Loss", (("loss", "training", "a"), ("held_out_loss", "held out", "b"))),
    ("Accuracy of masked words", (("mlm_accuracy", "training", "a"), ("held_out_mlm_accuracy", "held out", "b"))),
    ("Accuracy of pairs", (("pair_accuracy", "training", "a"), ("held_out_pair_accuracy", "held out", "b"))),
    ("Loss of replaced tokens", (("rtd_loss", "training", "a"), ("held_out_rtd_loss", "held out", "b"))),
    ("Accuracy of replaced tokens", (("rtd_accuracy", "training", "a"), ("held_out_rtd_accuracy", "held out", "b"))),
    ("Learning rate", (("learning_rate", "", "c"),)),
    ("Tokens per second", (("tokens_per_second", "", "c"),)),
    ("MFU", (("flop_utilisation", "", "c"),)),
)
# Before the names of probes in columns.
PROBE = "probe_"
WIDTH, HEIGHT, COLUMNS = 340, 212, 2
# Left, right, top, bottom.
MARGINS = (56, 14, 38, 34)


def read_curves(folder):
    """The curves of a run: from a column to a list of `(step, value)`, without missing values.

    Args:
        folder: the folder of a run, with metrics.csv; or such a file.

    Raises:
        ValueError: there is no such file, it has no steps, or a value is not a number.
    """
    path = Path(folder)
    path = path / "metrics.csv" if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"expected the metrics.csv of a run; {path} does not exist.")
    header, rows = _read_rows(path)
    if "step" not in header or not rows:
        raise ValueError(f"{path} must have a column step and rows; it has the columns {', '.join(header) or 'none'}.")
    curves = {name: [] for name in header}
    for line, row in rows:
        if len(row) < len(header):  # a killed process may have left an incomplete row
            continue
        texts = dict(zip(header, row, strict=False))
        step = _step(texts["step"], path, line)
        for name, text in texts.items():
            # A phase has a name.
            if name != "phase" and not math.isnan(value := _number(name, text, path, line)):
                curves[name].append((step, value))
    return curves


def draw_curves(curves, title="", levels=None):
    """The text of an SVG file with a chart of every measured quantity.

    Args:
        curves: as from `read_curves`.
        title: of the picture.
        levels: baselines of some columns, `{column: {name: value}}`, drawn as dashed lines; None for none.
    """
    charts = [(name, lines) for name, lines in (*CHARTS, *_of_probes(curves)) if any(curves.get(column) for column, _, _ in lines)]
    rows = math.ceil(len(charts) / COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + 40
    kinds = {word: kind for _, lines in charts for column, word, kind in lines if word and curves.get(column)}
    marks = (part for word, kind in kinds.items() for part in ("\u2003", Element("tspan", word, class_=kind)))
    parts = [
        Element("text", title, class_="title", x=MARGINS[0], y=26),
        Element("text", *marks, x=width - MARGINS[1], y=26, text_anchor="end"),
    ]
    for i, (name, lines) in enumerate(charts):
        drawn = [(curves[column], kind) for column, _, kind in lines if curves.get(column)]
        shapes = [part for shape in _chart(name, drawn, (levels or {}).get(lines[0][0], {})) for part in ("\n", shape)]
        corner = f"translate({i % COLUMNS * WIDTH} {40 + i // COLUMNS * HEIGHT})"
        parts.append(Element("g", *shapes, "\n", transform=corner))
    return svg_picture(width, height, title, *parts, style=STYLE + WIDE)


def _of_probes(curves):
    """The charts of the columns of probes, such as probe_mood_accuracy."""
    for column in curves:
        if column.startswith(PROBE):
            name, _, metric = column.removeprefix(PROBE).rpartition("_")
            yield f"Probe {name}: {metric}", ((column, "", "b"),)


def _chart(name, lines, levels):
    points = [point for line, _ in lines for point in line]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    heights = [*(y for _, y in points), *levels.values()]
    ticks = _ticks(min(heights), max(heights))
    chart = Chart(WIDTH, HEIGHT, MARGINS, across=(first, last), up=(ticks[0], ticks[-1]))
    right = WIDTH - MARGINS[1]
    yield Element("text", name, class_="title", x=MARGINS[0], y=20)
    yield from chart.grid(ticks, "{:,.6g}".format)
    for x, anchor in ((first, "start"), (last, "end")):
        yield chart.below(x, f"{x:,.0f}", anchor)
    yield chart.below((first + last) / 2, "step")
    for word, level in levels.items():
        yield chart.dashed(level)
        yield Element("text", word, x=right, y=f"{chart.at(first, level)[1] - 4:.1f}", text_anchor="end")
    for line, kind in reversed(lines):
        yield from chart.curve(line, kind, marked=len(line) <= 40)


def _ticks(low, high):
    """Round numbers from below the lowest value to above the highest."""
    # At least what floats can tell apart, and divide by.
    spread = max(high - low, 1e-9 * abs(high)) if max(abs(low), abs(high)) > 1e-30 else 1.0
    power = 10 ** math.floor(math.log10(spread / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= spread / 4)
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(begin, max(end, begin + 1) + 1)]
