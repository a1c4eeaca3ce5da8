"""The curve of a run: as a table on disk, as TensorBoard events, and drawn as one SVG file."""

import csv
import html
import importlib.util
import io
import math
import time
from pathlib import Path

from keras_bert_rebuild.files.durable import naming_full_disk, write_text
from keras_bert_rebuild.files.finite import is_number


class MetricsTable:
    """Rows of numbers in a .csv file, each written as soon as it is known.

    Args:
        path: the file; rows that earlier starts of the run wrote are retained.
        columns: names of the columns; the first is the step.
        step: rows after this step are removed, since the run resumes here and writes them again.

    Raises:
        ValueError: the columns of an existing file differ.
    """

    def __init__(self, path, columns, step=0):
        self.path, self.columns = Path(path), tuple(columns)
        earlier = [row for row in self._read() if int(row[0]) <= step]
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
        with self.path.open(newline="", encoding="utf-8") as file:
            header, *rows = [*csv.reader(file)] or [self.columns]
        if tuple(header) != self.columns:
            raise ValueError(f"expected the columns {', '.join(self.columns)}; {self.path} has {', '.join(header)}.")
        # A killed process may have left an incomplete row.
        return [row for row in rows if len(row) == len(self.columns)]


def _shown(value):
    if value is None:
        return ""
    return str(value) if isinstance(value, (int, str)) else f"{value:.6g}"


def tensorboard_is_installed():
    """Whether the package `tensorboard` is installed."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardLog:
    """Writes rows of numbers as TensorBoard events.

    Args:
        folder: the folder for `tensorboard --logdir`.
    """

    def __init__(self, folder):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))

    def write(self, step, values):
        """Write numbers by name at a step; None values are left out."""
        rows = [self._summary.Value(tag=name, simple_value=float(value)) for name, value in values.items() if value is not None]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=rows)))
        self._writer.flush()

    def close(self):
        """Write what is buffered and close the file."""
        self._writer.close()


# Title of a chart, and its curves: column, label, class of its line.
CHARTS = (
    ("Loss", (("loss", "training", "a"), ("held_out_loss", "held out", "b"))),
    ("Accuracy of masked words", (("mlm_accuracy", "training", "a"), ("held_out_mlm_accuracy", "held out", "b"))),
    ("Accuracy of pairs", (("pair_accuracy", "training", "a"), ("held_out_pair_accuracy", "held out", "b"))),
    ("Loss of replaced tokens", (("rtd_loss", "training", "a"), ("held_out_rtd_loss", "held out", "b"))),
    ("Accuracy of replaced tokens", (("rtd_accuracy", "training", "a"), ("held_out_rtd_accuracy", "held out", "b"))),
    ("Learning rate", (("learning_rate", "", "c"),)),
    ("Tokens per second", (("tokens_per_second", "", "c"),)),
    ("Share of the machine's operations", (("flop_utilisation", "", "c"),)),
)
# Before the names of probes in columns.
PROBE = "probe_"
WIDTH, HEIGHT, COLUMNS = 420, 236, 2
LEFT, RIGHT, TOP, BOTTOM = 62, 20, 46, 34
STYLE = """
svg { background: #fcfbf8; font-family: ui-sans-serif, system-ui, sans-serif; font-size: 11px; color-scheme: light dark; }
text { fill: #6f6b63; } .title { fill: #22211f; font-size: 14px; }
.grid { stroke: #e7e3da; } path { fill: none; stroke-width: 1.75; stroke-linejoin: round; } circle { stroke: none; }
path.a { stroke: #3d7fd0; } path.b { stroke: #bb7a18; } path.c { stroke: #6f6b63; }
circle.a, text.a { fill: #3d7fd0; } circle.b, text.b { fill: #bb7a18; } circle.c { fill: #6f6b63; }
@media (prefers-color-scheme: dark) {
svg { background: #16171a; } text { fill: #a19d94; } .title { fill: #e8e6e1; } .grid { stroke: #303136; }
path.a { stroke: #7fb2f5; } path.b { stroke: #e0b160; } path.c { stroke: #a19d94; }
circle.a, text.a { fill: #7fb2f5; } circle.b, text.b { fill: #e0b160; } circle.c { fill: #a19d94; }
}
"""


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
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = [*csv.reader(file)] or [[]]
    if "step" not in header or not rows:
        raise ValueError(f"{path} must have a column step and rows; it has the columns {', '.join(header) or 'none'}.")
    curves = {name: [] for name in header}
    for number, row in enumerate(rows, 2):
        if len(row) < len(header):  # a killed process may have left an incomplete row
            continue
        values = dict(zip(header, row, strict=False))
        for name, text in values.items():
            try:
                value = float(text) if text else math.nan
            except ValueError:
                if name != "phase":
                    raise ValueError(f"{path}, line {number}: {name} must be a number; got {text!r}.") from None
                continue
            if is_number(value):
                curves[name].append((float(values["step"]), value))
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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="30">{html.escape(title)}</text>',
    ]
    for i, (name, lines) in enumerate(charts):
        parts.append(f'<g transform="translate({i % COLUMNS * WIDTH} {40 + i // COLUMNS * HEIGHT})">')
        drawn = [(curves[column], word, kind) for column, word, kind in lines if curves.get(column)]
        parts += _chart(name, drawn, (levels or {}).get(lines[0][0], {}))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _of_probes(curves):
    """The charts of the columns of probes, such as probe_mood_accuracy."""
    for column in curves:
        if column.startswith(PROBE):
            name, _, metric = column.removeprefix(PROBE).rpartition("_")
            yield f"Probe {name}: {metric}", ((column, "", "b"),)


def _chart(name, lines, levels):
    points = [point for line, _, _ in lines for point in line]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    heights = [*(y for _, y in points), *levels.values()]
    ticks = _ticks(min(heights), max(heights))
    low, high = ticks[0], ticks[-1]
    across = (WIDTH - LEFT - RIGHT) / ((last - first) or 1)
    up = (HEIGHT - TOP - BOTTOM) / (high - low)
    point_at = lambda x, y: (LEFT + (x - first) * across, HEIGHT - BOTTOM - (y - low) * up)  # noqa: E731
    yield f'<text class="title" x="{LEFT}" y="22">{name}</text>'
    for tick in ticks:
        y = point_at(first, tick)[1]
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke-width="1"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,.6g}</text>'
    for x, anchor in ((first, "start"), (last, "end")):
        yield f'<text x="{point_at(x, low)[0]:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{x:,.0f}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">step</text>'
    for word, level in levels.items():
        x, y = point_at(first, level)
        yield f'<path class="c" stroke-dasharray="4 4" d="M{x} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{WIDTH - RIGHT}" y="{y - 4:.1f}" text-anchor="end">{html.escape(word)}</text>'
    at = WIDTH - RIGHT
    for line, word, kind in reversed(lines):
        path = "L".join("{:.1f} {:.1f}".format(*point_at(*point)) for point in line)
        yield f'<path class="{kind}" d="M{path}"/>'
        if len(line) <= 40:
            for point in line:
                yield '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="2.2"/>'.format(kind, *point_at(*point))
        yield f'<text class="{kind}" x="{at}" y="22" text-anchor="end">{word}</text>'
        at -= 7 * len(word) + 14


def _ticks(low, high):
    """Round numbers from below the lowest value to above the highest."""
    spread = (high - low) or abs(high) or 1.0
    power = 10 ** math.floor(math.log10(spread / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= spread / 4)
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(begin, max(end, begin + 1) + 1)]
