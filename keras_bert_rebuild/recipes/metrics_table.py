"""The curve of a run, as a table on disk and as TensorBoard events."""

import csv
import importlib.util
import io
import time
from pathlib import Path

from keras_bert_rebuild.files.durable import naming_full_disk, write_text


class MetricsTable:
    """Rows of numbers in a .csv file, each written as soon as it is known.

    Args:
        path: the file; rows of an earlier start of the run stay in it.
        columns: names of the columns, the first of them the step.
        step: rows after this step are removed: the run resumes here and will write them again.

    Raises:
        ValueError: the file has other columns.
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
        # A killed process may have left half a row.
        return [row for row in rows if len(row) == len(self.columns)]


def _shown(value):
    if value is None:
        return ""
    return str(value) if isinstance(value, (int, str)) else f"{value:.6g}"


def tensorboard_is_installed():
    """Whether the package `tensorboard` is installed."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardLog:
    """Writes rows of numbers where TensorBoard finds them.

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
