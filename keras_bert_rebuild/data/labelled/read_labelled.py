"""Read a file of examples of any format: the rows of tsv, csv and jsonl files, the lines of txt files, CoNLL and SQuAD."""

import json
import os
from collections.abc import Mapping
from typing import Any

from keras_bert_rebuild.data.labelled.example_kinds import COLUMNS_OF_LISTS, KINDS, LISTS, Kind
from keras_bert_rebuild.data.labelled.read_squad_and_conll import read_squad, read_words
from keras_bert_rebuild.data.labelled.tables import column_names, decoded_rows, read_cells
from keras_bert_rebuild.data.text_files import location, read_lines, suffix_of
from keras_bert_rebuild.files.reading import check_depth

# Suffix of a file's name, before .gz or .xz, to its format.
SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".conllu": "conllu",
    ".json": "squad",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
_TABLES = {"tsv": "\t", "csv": ","}
# Formats that have examples of one kind only.
_KIND_OF = {"conll": "tagging", "conllu": "tagging", "squad": "questions"}


def read_examples(
    path: str | os.PathLike[str],
    kind: str | Kind,
    *,
    columns: Mapping[str, Any] | None = None,
    header: bool | None = None,
    format: str | None = None,
    labelled: bool = True,
) -> list[Any]:
    """Read a file of examples.

    Args:
        path: a file in UTF-8, also `.gz` or `.xz`.
        kind: "classification", "multi_label", "regression", "similarity", "tagging", "questions", "choices" or "retrieval"; or a
            `Kind` of your own.
        columns: the column of each part of an example in the file, by name, such as `{"text": "utterance", "label": "intent"}`, or
            by number from 1; None for the usual names, or the order text, (second text,) label.
        header: whether the first row of a table has the names of the columns; None to infer it. The cells of a column whose name
            ends in `:json`, as `predict` writes it, are JSON values.
        format: "tsv", "csv", "jsonl", "conll", "conllu", "squad", or "txt" for texts without labels; None to infer it from the
            suffix of the file.
        labelled: whether every example must have a target.

    Returns:
        A list of examples, see `labelled_examples`, each with its file and line.

    Raises:
        ValueError: an argument or a row is not as expected; the error names the file and line.
    """
    examples, _ = read_examples_and_others(path, kind, columns=columns, header=header, format=format, labelled=labelled)
    return examples


def read_examples_and_others(path, kind, *, columns=None, header=None, format=None, labelled=True):
    """Read a file of examples, as `read_examples`, and what else the file has about each.

    Returns:
        `(examples, others)`; `others` has for every example the values of the columns that are not parts of it, by name, and its id
        as it is in the file. They are empty for CoNLL and SQuAD files.
    """
    if not isinstance(kind, Kind):
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}.")
        kind = KINDS[kind]
    format = format or SUFFIXES.get(suffix_of(path))
    if format not in FORMATS:
        ends = ", ".join(SUFFIXES)
        raise ValueError(
            f"expected a file whose name ends in {ends}, before .gz or .xz, or format= one of {', '.join(FORMATS)}; got {path}."
        )
    named = dict(columns or {})
    unknown = [part for part in named if part not in kind.columns]
    if unknown:
        raise ValueError(f"columns must be among {', '.join(kind.columns)}; got {', '.join(unknown)}.")
    for part, names in named.items():
        if part not in LISTS and isinstance(names, (list, tuple)):
            raise ValueError(f"columns must name a single column for {part}; got {', '.join(map(str, names))}.")
    if named and format in ("squad", "txt"):
        raise ValueError(f"columns apply only to tables, JSON lines and CoNLL files; {path} is read as {format}.")
    if header is not None and format not in _TABLES:
        raise ValueError(f"header applies only to {', '.join(_TABLES)}; {path} is read as {format}.")
    if format in _KIND_OF:
        if kind.name != _KIND_OF[format]:
            raise ValueError(f"expected a file for {kind.name}; {path} has the format of {_KIND_OF[format]}.")
        examples = read_squad(path, labelled) if format == "squad" else read_words(path, format, named, labelled)
        return examples, [{} for _ in examples]
    if format == "txt":
        if labelled:
            raise ValueError(f"expected a file with labels; {path} has only lines of text.")
        rows = _plain_lines(path, kind)
    elif format == "jsonl":
        rows = _json_lines(path, kind, named, labelled)
    else:
        rows = _table_rows(path, _TABLES[format], kind, named, header, labelled)
    if not labelled:
        unknown = lambda part, value: value == "" and part in (kind.target, "label")  # noqa: E731
        rows = [({part: value for part, value in parts.items() if not unknown(part, value)}, *rest) for parts, *rest in rows]
    examples = [kind.make(parts, where) for parts, where, _ in rows]
    if labelled and kind.needed:
        for example in examples:
            if example.right() is None:
                raise ValueError(f"expected {kind.needed}; {example.where} has none.")
    return examples, [others for _, _, others in rows]


def _table_rows(path, delimiter, kind, columns, header, labelled):
    """The rows of a table, as parts of examples.

    Args:
        path: the file.
        delimiter: a tab, for cells without quoting, or a comma, for cells that may be quoted.
        kind: a `Kind`.
        columns: part of an example to the name, or number from 1, of its column; other parts have the usual names of the kind.
        header: whether the first row has the names of the columns; None to infer it.
        labelled: whether a column for the target is required.

    Returns:
        A list of `(parts, location, others)`; `others` has the cells of the remaining columns by name, and an id as it is.

    Raises:
        ValueError: a row has more or fewer columns than the first, a column does not exist, or there is no example.
    """
    rows = read_cells(path, delimiter)
    if not rows:
        raise ValueError(f"expected at least one example; {path} has none.")
    first_line, first = rows[0]
    named = any(not _is_number(name) for names in columns.values() for name in _listed(names))
    names = column_names(first)
    if header is None:
        header = named or _names_columns(names, kind)
    where = location(path, first_line)
    found = _of_header(names, kind, columns, where) if header else _of_width(first, kind, columns, where)
    _check_needed(found, kind, labelled, f"the columns {', '.join(names)}" if header else f"{len(first)} columns", where)
    for line, cells in rows:
        if len(cells) != len(first):
            raise ValueError(f"expected {len(first)} columns, as in line {first_line}; {location(path, line)} has {len(cells)}.")
    rows = decoded_rows(first, rows[1:], path) if header else rows
    if not rows:
        raise ValueError(f"expected at least one example; {path} has only the names of columns.")
    used = {index for at in found.values() for index in _listed(at)}
    others = {name: i for i, name in enumerate(names) if i not in used} if header else {}
    others |= {"id": found["id"]} if "id" in found else {}
    read = []
    for line, cells in rows:
        where = location(path, line)
        parts = {part: _list_of_cells(part, cells, at, where) if isinstance(at, list) else cells[at] for part, at in found.items()}
        read.append((parts, where, {name: cells[i] for name, i in others.items()}))
    return read


def _list_of_cells(part, cells, at, where):
    """The list in several columns; an empty cell is not a part of it."""
    values, empty = [], None
    for i in at:
        if cells[i] in ("", None):
            empty = len(values)
        elif empty is not None and part == "choices":  # the label is the index of a column
            raise ValueError(f"expected the empty choices after the others; choice {empty} is empty in {where}.")
        else:
            values += _listed(cells[i])
    return values if values or part == "choices" else None


def _json_lines(path, kind, columns, labelled):
    """The objects of a jsonl file, one per line, in the format that `_table_rows` returns."""
    rows, named = [], [name for names in columns.values() for name in _listed(names)]
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
        missing = next((name for name in named if name not in value), None)
        if missing is not None:
            raise ValueError(f"expected the name {missing}; {where} has {', '.join(value)}.")
        found = {**columns, **_usual_names(kind, columns, [name for name in value if name not in named])}
        _check_needed(found, kind, labelled, f"the names {', '.join(value)}", where)
        take = lambda at, value=value: [value[name] for name in at] if isinstance(at, (list, tuple)) else value[at]  # noqa: E731
        parts = {part: take(at) for part, at in found.items()}
        used = {name for at in found.values() for name in _listed(at)}
        others = {name: other for name, other in value.items() if name not in used}
        others |= {"id": parts["id"]} if "id" in parts else {}
        if labelled and kind.target and parts[kind.target] is None:
            raise ValueError(f"expected a value for {kind.target}; got null in {where}.")
        rows.append((parts, where, others))
    return rows


def _plain_lines(path, kind):
    """Every line of a file as a text, in the format that `_table_rows` returns."""
    (part,) = kind.by_width.get(1, ("",))
    if not part:
        raise ValueError(f"expected a file with columns; {path} has lines of text.")
    return [({part: line}, location(path, number), {}) for number, line in enumerate(read_lines(path), 1)]


def _names_columns(names, kind):
    """Whether the cells of the first row are names of parts of such examples."""
    named = set(_usual_names(kind, {}, [name.lower() for name in names]))
    named |= {part for part in kind.columns if _list_columns(part, names)}
    return bool(named) and named.issuperset(kind.required)


def _of_header(names, kind, columns, where):
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
    return [i for i, name in enumerate(names) if part in LISTS and COLUMNS_OF_LISTS[part].fullmatch(name)]


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
