"""A table of columns: what examples and documents become first, whether they come from a file or from an object."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from keras_bert_rebuild.data.text_files import location


@dataclass(frozen=True)
class Table:
    """Rows of named values."""

    names: list
    """The names of the columns; "column 1" and so on if they have none."""

    rows: list
    """A dictionary for every row, from names to values; a row may lack some."""

    source: str
    """The file, or the argument that the object was given as, for errors."""

    lines: list | None = None
    """The line of the file that each row begins at; None if rows are not lines."""

    named: bool = True
    """Whether the columns have names."""

    first: int = 0
    """The number of the first row in its source, from 0."""

    def where(self, row):
        """How a row is named in errors, from 0."""
        return f"{self.source}[{self.first + row}]" if self.lines is None else location(self.source, self.lines[row])

    @property
    def listed(self):
        """What columns there are, for errors."""
        if self.named:
            return f"the columns {', '.join(map(str, self.names)) or 'none'}"
        return f"{len(self.names)} columns without known names"


def table_of_cells(cells, source, lines=None, names=None, first=0):
    """A table of rows of cells.

    Args:
        cells: lists or tuples of values, as many in each.
        source, lines, first: see `Table`.
        names: the names of the columns; None if they have none. The second of two equal names gets a number, `text.1`.

    Raises:
        ValueError: a row has more or fewer cells than the first.
    """
    width = len(names if names is not None else cells[0])
    numbered = [f"column {i + 1}" for i in range(width)] if names is None else _different(names)
    table = Table(numbered, [], source, lines, names is not None, first)
    for i, row in enumerate(cells):
        if len(row) != width:
            raise ValueError(f"expected {width} columns, as in the first row; {table.where(i)} has {len(row)}.")
    return replace(table, rows=[dict(zip(numbered, row, strict=True)) for row in cells])


def table_of_rows(rows, source, lines=None, first=0):
    """A table of dictionaries, which may have different names."""
    return Table(list(dict.fromkeys(name for row in rows for name in row)), rows, source, lines, first=first)


def table_of_columns(columns, source):
    """A table of a dictionary of columns.

    Raises:
        ValueError: columns have different lengths.
    """
    columns = {name: _values(column, name, source) for name, column in columns.items()}
    (first, length), *rest = ((name, len(values)) for name, values in columns.items()) if columns else (("", 0),)
    for name, count in rest:
        if count != length:
            raise ValueError(f"expected columns of equal length; {source} has {length} values of {first} and {count} of {name}.")
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return Table(list(columns), rows, source)


def plain_value(value):
    """A value as a file has it: arrays and tuples as lists, numbers and times as those of Python, and what is missing as None."""
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {name: plain_value(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain_value(part) for part in value]
    # NaN and pandas's NaT differ from themselves; its NA has no truth value.
    if type(value).__name__ == "NAType" or value != value:
        return None
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value


def _values(column, name, source):
    """The values of a column as a list of plain values."""
    convert = getattr(column, "tolist", None) or getattr(column, "to_list", None) or getattr(column, "to_pylist", None)
    if convert is None and (isinstance(column, str) or not isinstance(column, Iterable)):
        raise ValueError(f"expected a list of values as column {name} of {source}; got {column!r:.60}.")
    return [plain_value(value) for value in (list(column) if convert is None else convert())]


def _different(names):
    """Names, of which a later equal one gets a number: `text`, `text.1`."""
    different = []
    for name in names:
        numbered = (f"{name}.{number}" for number in range(1, len(names) + 1))
        different.append(name if name not in different else next(other for other in numbered if other not in names + different))
    return different
