"""Objects of other libraries as tables: lists, DataFrames, datasets, Arrow tables and Parquet files.

No library is imported for its objects: they are recognised by their methods.
"""

import contextlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace

from keras_bert_rebuild.data.tables_of_columns import Table, plain_value, table_of_cells, table_of_columns, table_of_rows
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_regular, parse_json

# Where Hugging Face's `datasets` puts the names of integer labels into Arrow tables and Parquet files.
_FEATURES = b"huggingface"
# How pandas names the columns of Arrow tables and Parquet files in which it puts the index of a DataFrame.
_INDEX = "__index_level_"
# Rows of a part of an object that is larger than memory.
PART = 1000


def table_of_object(data, source, ready, first=0):
    """A table of any object with rows.

    Args:
        data: a list of dictionaries, of tuples or of texts, a dictionary of lists, a DataFrame, a `datasets.Dataset`, an Arrow
            table, or what has Arrow's stream interface.
        source: how it is named in errors.
        ready: a class; a list of such objects needs no table.
        first: see `Table`.

    Returns:
        A `Table`, in which what is missing (NaN, NA, NaT, or a label of -1 with names for the others) is None; or, of a list of
        `ready`, the list.

    Raises:
        ValueError: it is something else, columns have different lengths, or two the same name.
    """
    columns = _columns_of(data, source)
    if columns is not None:
        return _with_label_names(replace(table_of_columns(columns, source), first=first), data)
    return _table_of_items(_items(data, source), data, source, ready, first)


def tables_of_object(data, source, ready):
    """Yield the parts of an object, `PART` rows each: a dataset on disk or an iterator need not fit into memory.

    Args:
        data, source, ready: as for `table_of_object`.

    Yields:
        What `table_of_object` returns for each part; a dictionary of columns is one part.
    """
    if isinstance(data, Mapping):
        yield table_of_object(data, source, ready)
    elif _is_frame(data) or (hasattr(data, "column_names") and hasattr(data, "__len__")):
        for first in range(0, len(data), PART):
            yield table_of_object(_part(data, first), source, ready, first)
    elif hasattr(data, "__arrow_c_stream__") and not hasattr(data, "tolist"):
        first = 0
        for batch in import_pyarrow(source).RecordBatchReader.from_stream(data):
            yield table_of_object(batch, source, ready, first)
            first += len(batch)
    else:
        items = iter(_items(data, source))
        for first in itertools.count(0, PART):
            part = list(itertools.islice(items, PART))
            if not part:
                return
            yield _table_of_items(part, data, source, ready, first)


def splits_of(data):
    """The parts of a dictionary of tables, such as a `datasets.DatasetDict`, by name; None for anything else."""
    split = isinstance(data, Mapping) and data and all(hasattr(part, "column_names") or _is_frame(part) for part in data.values())
    return dict(data) if split else None


def in_form_of(data, rows, unchanged=()):
    """Rows as an object of the type that examples were given as.

    Args:
        data: as for `table_of_object`.
        rows: dictionaries with the same names in each.
        unchanged: columns of `data` that the rows have as well; a DataFrame retains their types, and its index.

    Returns:
        For a list or a file the rows.
    """
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    if isinstance(data, Mapping):
        return columns
    if _is_frame(data) and hasattr(data, "assign"):  # pandas
        return data.assign(**{name: column for name, column in columns.items() if name not in unchanged})[list(columns)]
    make = next((getattr(type(data), name) for name in ("from_pydict", "from_dict") if hasattr(type(data), name)), None)
    if make is not None and hasattr(data, "column_names"):  # Arrow, datasets
        return make(columns)
    return type(data)(columns) if _is_frame(data) else rows


def import_pyarrow(what):
    """The module `pyarrow`, with `pyarrow.parquet`.

    Args:
        what: the file or argument that it is needed for.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"{what} needs the package pyarrow: pip install pyarrow.") from None
    return pyarrow


@contextlib.contextmanager
def opened_parquet(path):
    """Open a Parquet file as a `pyarrow.parquet.ParquetFile`.

    Args:
        path: the file.

    Yields:
        The file, and how many bytes each of its row groups takes in memory.

    Raises:
        ValueError: pyarrow is missing, or the file is damaged or of another format.
    """
    pyarrow = import_pyarrow(path)
    check_regular(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file, [file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)]
    except pyarrow.ArrowException as error:
        raise ValueError(f"expected a Parquet file; {path} is not one: {str(error).splitlines()[0]}") from None


def _columns_of(data, source):
    """The columns of an object by name; None if it has rows."""
    if isinstance(data, Mapping):
        return data
    for convert in ("to_pydict", "to_dict"):  # Arrow, datasets
        if hasattr(data, "column_names") and hasattr(data, convert):
            columns = getattr(data, convert)()
            return {name: values for name, values in columns.items() if not str(name).startswith(_INDEX)}
    if _is_frame(data):
        names = list(data.columns)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"expected columns with different names; {source} has two named {twice}.")
        return {name: data[name] for name in names}
    if hasattr(data, "__arrow_c_stream__") and not (hasattr(data, "tolist") or hasattr(data, "to_list")):  # a single column
        return import_pyarrow(source).table(data).to_pydict()
    return None


def _items(data, source):
    """An object that has items and no columns.

    Raises:
        ValueError: it has neither.
    """
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        raise ValueError(f"expected a file, a list, a dictionary of columns, a DataFrame or a dataset; {source} is {data!r:.60}.")
    return data


def _table_of_items(items, data, source, ready, first):
    """The table of some items of an object, or a list of those that need no table."""
    rows = list(items)
    if rows and all(isinstance(row, ready) for row in rows):
        return rows
    kinds = ((Mapping, table_of_rows), ((list, tuple), table_of_cells), (str, _table_of_texts))
    made = next((make for kind, make in kinds if all(isinstance(row, kind) for row in rows)), None)
    if made is None:
        odd = next((i for i, row in enumerate(rows) if type(row) is not type(rows[0])), 0)
        value = printable(repr(rows[odd])[:60])
        raise ValueError(
            f"expected dictionaries, tuples, texts or {ready.__name__}s, all of one kind; {source}[{first + odd}] is {value}."
        )
    if not rows:
        return Table([], [], source)
    plain = [plain_value(row) for row in rows]
    return _with_label_names(made(plain, source, first=first), data)


def _part(data, first):
    """`PART` rows of a DataFrame, an Arrow table or a dataset."""
    if hasattr(data, "iloc"):  # pandas
        return data.iloc[first : first + PART]
    if hasattr(data, "slice"):  # Arrow, polars
        return data.slice(first, PART)
    return data.select(range(first, min(first + PART, len(data))))  # datasets


def _is_frame(data):
    """Whether an object is a DataFrame: of pandas, polars or what is like them."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, Mapping)


def _table_of_texts(texts, source, first):
    return table_of_cells([(text,) for text in texts], source, first=first)


def _with_label_names(table, data):
    """The table with the names of labels instead of their numbers, where a dataset or an Arrow table has names."""
    names = {column: labels for column, feature in _features(data).items() if (labels := _label_names(feature))}
    if not names:
        return table
    rows = []
    for i, row in enumerate(table.rows):
        named = {name: _named(row.get(name), names[name], f"{name} of {table.where(i)}") for name in names if name in row}
        rows.append({**row, **named})
    return replace(table, rows=rows)


def _features(data):
    """The descriptions of columns by name, objects of `datasets` or the same as dictionaries; empty without any."""
    features = getattr(data, "features", None)
    metadata = getattr(getattr(data, "schema", None), "metadata", None)
    if features is None and isinstance(metadata, Mapping) and _FEATURES in metadata:
        content = parse_json(metadata[_FEATURES].decode("utf-8", "replace"), "the Arrow table's description of its columns")
        features = content.get("info", {}).get("features") if isinstance(content, dict) else None
    return features if isinstance(features, Mapping) else {}


def _label_names(feature):
    """The names of the labels of a column, or of those in its lists; None if they have none."""
    part = lambda of, name: of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)  # noqa: E731
    return part(feature, "names") or part(part(feature, "feature"), "names")


def _named(value, names, where):
    if isinstance(value, list):
        return [_named(part, names, where) for part in value]
    if not isinstance(value, int) or value == -1:  # datasets: -1 for an unknown label
        return None if value == -1 else value
    if not 0 <= value < len(names):
        raise ValueError(f"expected a label from 0 to {len(names) - 1}, for which there are names; got {value} as {where}.")
    return names[value]
