"""Examples from the rows of tsv, csv and jsonl files, and from the lines of txt files."""

import csv
import io
import json
import re

from keras_bert_rebuild.data.text_files import location, read_lines, read_text
from keras_bert_rebuild.files.json_text import check_depth
from keras_bert_rebuild.files.limits import limit

# Several columns of a table that form one part of an example, a list.
_COLUMNS_OF_LISTS = {
    "choices": re.compile(r"(choice|option|ending|solution|sol)_?\d+", re.IGNORECASE),
    "negatives": re.compile(r"(hard_?)?negative_?\d+", re.IGNORECASE),
    "scores": re.compile(r"score_?\d+", re.IGNORECASE),
}
# Parts that may be given several columns.
LISTS = tuple(_COLUMNS_OF_LISTS)
# Longer than any text; the csv module's own limit is 131,072 characters.
_LONGEST_CELL = limit("cell_characters")


def read_table(path, delimiter, kind, columns=None, header=None, labelled=True):
    """The rows of a table, as parts of examples.

    Args:
        path: the file.
        delimiter: a tab, for cells without quoting, or a comma, for cells that may be quoted.
        kind: a `Kind`.
        columns: part of an example to the name, or number from 1, of its column; other parts have the usual names of the kind.
        header: whether the first row has the names of the columns; None to infer it.
        labelled: whether a column for the target is required.

    Returns:
        A list of `(parts, location)`.

    Raises:
        ValueError: a row has more or fewer columns than the first, a column does not exist, or there is no example.
    """
    rows = _tab_rows(path) if delimiter == "\t" else _csv_rows(path, delimiter)
    if not rows:
        raise ValueError(f"expected at least one example; {path} has none.")
    (first_line, first), columns = rows[0], dict(columns or {})
    named = any(not _is_number(name) for names in columns.values() for name in _listed(names))
    if header is None:
        header = named or _names_columns(first, kind)
    where = location(path, first_line)
    found = _of_header(first, kind, columns, where) if header else _of_width(first, kind, columns, where)
    _check_needed(found, kind, labelled, f"the columns {', '.join(first)}" if header else f"{len(first)} columns", where)
    for line, cells in rows:
        if len(cells) != len(first):
            raise ValueError(f"expected {len(first)} columns, as in line {first_line}; {location(path, line)} has {len(cells)}.")
    rows = rows[1:] if header else rows
    if not rows:
        raise ValueError(f"expected at least one example; {path} has only the names of columns.")
    take = lambda cells, at: [cells[i] for i in at] if isinstance(at, list) else cells[at]  # noqa: E731
    return [({part: take(cells, at) for part, at in found.items()}, location(path, line)) for line, cells in rows]


def read_json_lines(path, kind, columns=None, labelled=True):
    """The objects of a jsonl file, one per line, in the format that `read_table` returns."""
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = location(path, number)
        try:
            value = json.loads(line)
            check_depth(value, where)
        except json.JSONDecodeError as error:
            raise ValueError(f"expected a JSON object; {where} is not one, at character {error.colno}: {error.msg}.") from None
        except RecursionError:
            raise ValueError(f"expected a JSON object; {where} is nested too deeply.") from None
        except ValueError as error:  # an integer with thousands of digits
            raise ValueError(f"expected a JSON object; {where} is not one: {error}") from None
        if not isinstance(value, dict):
            raise ValueError(f"expected a JSON object; got {line!r:.60} in {where}.")
        named = [name for names in (columns or {}).values() for name in _listed(names)]
        missing = next((name for name in named if name not in value), None)
        if missing is not None:
            raise ValueError(f"expected the name {missing}; {where} has {', '.join(value)}.")
        found = {**(columns or {}), **_usual_names(kind, columns or {}, [name for name in value if name not in named])}
        _check_needed(found, kind, labelled, f"the names {', '.join(value)}", where)
        take = lambda at, value=value: [value[name] for name in at] if isinstance(at, (list, tuple)) else value[at]  # noqa: E731
        parts = {part: take(at) for part, at in found.items()}
        if labelled and kind.target and parts[kind.target] is None:
            raise ValueError(f"expected a value for {kind.target}; got null in {where}.")
        rows.append((parts, where))
    return rows


def read_plain_lines(path, kind):
    """Every line of a file as a text, in the format that `read_table` returns."""
    (part,) = kind.by_width.get(1, ("",))
    if not part:
        raise ValueError(f"expected a file with columns; {path} has lines of text.")
    return [({part: line}, location(path, number)) for number, line in enumerate(read_lines(path), 1) if line.strip()]


def _tab_rows(path):
    return [(number, line.split("\t")) for number, line in enumerate(read_lines(path), 1) if line.strip()]


def _csv_rows(path, delimiter):
    limit = csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    rows, line = [], 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"expected cells quoted as in csv; {location(path, line)} is not: {error}.") from None
    finally:
        csv.field_size_limit(limit)
    return rows


def _names_columns(cells, kind):
    """Whether the cells of the first row are names of parts of such examples."""
    names = [cell.strip() for cell in cells]
    named = set(_usual_names(kind, {}, [name.lower() for name in names]))
    named |= {part for part in kind.columns if _list_columns(part, names)}
    return bool(named) and named.issuperset(kind.required)


def _of_header(cells, kind, columns, where):
    names = [cell.strip() for cell in cells]
    lower = [name.lower() for name in names]
    given = {part: [_column_index(name, names, where) for name in _listed(wanted)] for part, wanted in columns.items()}
    taken = {index for indexes in given.values() for index in indexes}
    usual = _usual_names(kind, columns, [name for i, name in enumerate(lower) if i not in taken])
    found = {part: lower.index(name) for part, name in usual.items()}
    for part in kind.columns:
        if part not in usual and (indexes := _list_columns(part, names)):
            found[part] = indexes
    return {**found, **{part: indexes if part in LISTS else indexes[0] for part, indexes in given.items()}}


def _of_width(cells, kind, columns, where):
    if columns:
        # "1" is the number of a column, even if a cell of the header is a 1.
        indexes = {part: [_index_of_number(n, len(cells), where) for n in _listed(numbers)] for part, numbers in columns.items()}
        return {part: found if part in LISTS else found[0] for part, found in indexes.items()}
    parts = kind.by_width.get(len(cells))
    if parts is None:
        usual = " or ".join(", ".join(parts) for parts in kind.by_width.values()) or "a header"
        raise ValueError(f"expected {usual} unless columns are named; {where} has {len(cells)} columns without known names.")
    return {part: i for i, part in enumerate(parts)}


def _column_index(name, names, where):
    """The index, from 0, of a column given by its name or its number from 1."""
    if name in names:
        return names.index(name)
    if not _is_number(name):
        raise ValueError(f"expected a column named {name}; {where} has the columns {', '.join(names)}.")
    return _index_of_number(name, len(names), where)


def _index_of_number(number, count, where):
    if not _is_number(number) or not 1 <= int(number) <= count:
        raise ValueError(f"expected the number of a column from 1 to {count}; got {number} for {where}.")
    return int(number) - 1


def _check_needed(found, kind, labelled, has, where):
    needed = (*kind.required, *((kind.target,) if labelled and kind.target else ()))
    for part in needed:
        if part not in found:
            names = ", ".join(kind.columns[part])
            raise ValueError(f"expected a column for {part} (one of {names}, or named in columns); {where} has {has}.")


def _list_columns(part, names):
    return [i for i, name in enumerate(names) if part in LISTS and _COLUMNS_OF_LISTS[part].fullmatch(name)]


def _usual_names(kind, columns, names):
    """The usual name, among `names`, of every part without a column yet; a name of two parts goes to the first."""
    found = {}
    for part, known in kind.columns.items():
        name = next((name for name in known if name in names and name not in found.values()), None)
        if part not in columns and name is not None:
            found[part] = name
    return found


def _listed(names):
    return names if isinstance(names, (list, tuple)) else [names]


def _is_number(name):
    return isinstance(name, int) or (isinstance(name, str) and name.isdecimal())
