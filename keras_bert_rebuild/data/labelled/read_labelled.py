"""Examples from a file of any format, or from an object: a list, a dictionary of columns, a DataFrame, a dataset."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_rebuild.data.labelled.example_kinds import KINDS, Kind
from keras_bert_rebuild.data.labelled.find_columns import are_names, check_parts, find_columns, is_number, list_of_columns, listed
from keras_bert_rebuild.data.labelled.labelled_examples import Example
from keras_bert_rebuild.data.labelled.read_squad_and_conll import labelled_json, read_squad, read_words
from keras_bert_rebuild.data.tables import column_names, decoded_rows, delimiter_of, json_objects, read_cells
from keras_bert_rebuild.data.tables_of_columns import table_of_cells, table_of_columns, table_of_rows
from keras_bert_rebuild.data.tables_of_objects import opened_parquet, table_of_object
from keras_bert_rebuild.data.text_files import location, read_lines, suffix_of
from keras_bert_rebuild.files.limits import check_limit

# Suffix of a file's name, before .gz or .xz, to its format.
SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".txt": "txt",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".conllu": "conllu",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
_CELLS = ("tsv", "csv")


class Labelled(NamedTuple):
    """Examples, and what else their file or object has."""

    examples: list
    """A list of examples."""

    other_columns: list
    """For every example the values of the columns that are not parts of it, by name, its id as it is given, and, if examples need
    no target, that."""

    columns: dict
    """The column of every part: its name, or several names; empty if there are no columns."""


def read_examples(
    source: Any,
    kind: str | Kind,
    *,
    columns: Mapping[str, Any] | None = None,
    header: bool | None = None,
    format: str | None = None,
    labelled: bool = True,
) -> list[Any]:
    """Examples from a file or an object.

    Args:
        source: a file in UTF-8, also `.gz` or `.xz`, or a Parquet file; or a list of dictionaries, of tuples in the order of
            columns or of examples, a dictionary of lists, a DataFrame, a `datasets.Dataset` or an Arrow table.
        kind: "classification", "multi_label", "regression", "similarity", "tagging", "questions", "choices", "retrieval" or
            "ranking"; or a `Kind` of your own.
        columns: the column of each part of an example, by name, such as `{"text": "utterance", "label": "intent"}`, or by number
            from 1; None for the usual names, or the order text, (second text,) label.
        header: whether the first row of a .tsv or .csv file has the names of the columns; None to infer it. The cells of a column
            whose name ends in `:json`, as `predict` writes it, are JSON values.
        format: "tsv", "csv" (also with `;`), "jsonl", "json" (a list of objects, an object of lists, or SQuAD), "parquet", "conll",
            "conllu", or "txt" for texts without labels; None to infer it from the suffix of the file.
        labelled: whether every example must have a target.

    Returns:
        A list of examples, see `labelled_examples`, each with its file and line, or its index.

    Raises:
        ValueError: an argument or a row is not as expected; the error names the file and line.
    """
    return read_labelled(source, kind, columns=columns, header=header, format=format, labelled=labelled).examples


def read_labelled(source, kind, *, columns=None, header=None, format=None, labelled=True, name="examples"):
    """Examples, as `read_examples`, and what else their file or object has, as `Labelled`.

    Args:
        name: how an object is named in errors.
        source, kind, columns, header, format, labelled: see `read_examples`.
    """
    if not isinstance(kind, Kind):
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}.")
        kind = KINDS[kind]
    check_parts(columns or {}, kind)
    if isinstance(source, (str, os.PathLike)):
        table = _read(Path(source), kind, columns or {}, header, format, labelled)
    else:
        table = table_of_object(source, name, Example)
    if isinstance(table, list):
        return Labelled(table, [{} for _ in table], {})
    if not table.rows:
        raise ValueError(f"expected at least one example; {table.source} has none.")
    return _examples_of(table, kind, columns, labelled)


def _examples_of(table, kind, columns, labelled):
    names_by_part = find_columns(table, kind, columns, labelled)
    passed = {"id"} if labelled else {"id", kind.target}
    used = {name for part, names in names_by_part.items() if part not in passed for name in listed(names)}
    examples, remaining = [], []
    for i, row in enumerate(table.rows):
        where = table.where(i)
        parts = {
            part: list_of_columns(part, row, names, where) if isinstance(names, list) else row.get(names)
            for part, names in names_by_part.items()
        }
        target = parts.get(kind.target)
        if labelled and kind.target and target is None:
            raise ValueError(f"expected a value for {kind.target}; got none in {where}.")
        if not labelled:
            parts = {part: value for part, value in parts.items() if value != "" or part not in (kind.target, "label")}
        examples.append(kind.make(parts, where))
        remaining.append({name: value for name, value in row.items() if name not in used} if table.named else {})
    if labelled and kind.needed:
        for example in examples:
            if example.right() is None:
                raise ValueError(f"expected {kind.needed}; {example.where} has none.")
    return Labelled(examples, remaining, names_by_part)


def _read(path, kind, columns, header, format, labelled):
    """The table in a file, or the examples of a file that can only have those of one kind.

    Raises:
        ValueError: the file cannot be read, or arguments do not apply to its format.
    """
    format = format or SUFFIXES.get(suffix_of(path))
    if format not in FORMATS:
        ends = ", ".join(SUFFIXES)
        raise ValueError(
            f"expected a file whose name ends in {ends}, before .gz or .xz, or format= one of {', '.join(FORMATS)}; got {path}."
        )
    if columns and format == "txt":
        raise ValueError(f"columns apply only to files with columns; {path} is read as {format}.")
    if header is not None and format not in _CELLS:
        raise ValueError(f"header applies only to {', '.join(_CELLS)}; {path} is read as {format}.")
    if format in ("conll", "conllu"):
        _check_kind(path, kind, "tagging")
        return read_words(path, format, columns, labelled)
    if format in _CELLS:
        return _read_cells(path, format, kind, columns, header)
    if format == "json":
        return _read_json(path, kind, columns, labelled)
    if format == "parquet":
        return _read_parquet(path)
    return _read_json_lines(path) if format == "jsonl" else _read_texts(path, kind, labelled)


def _check_kind(path, kind, of_format):
    if kind.name != of_format:
        raise ValueError(f"expected a file for {kind.name}; {path} has the format of {of_format}.")


def _read_csv(path):
    """The rows of a .csv file, which has `;` between its cells where spreadsheets take the comma for decimals."""
    if delimiter_of(next((line for line in read_lines(path) if line.strip()), "")) == ";":
        rows = read_cells(path, ";")
        if len({len(cells) for _, cells in rows}) == 1:
            return rows
    return read_cells(path, ",")


def _read_cells(path, format, kind, columns, header):
    """The table in a .tsv or .csv file."""
    rows = read_cells(path, "\t") if format == "tsv" else _read_csv(path)
    if not rows:
        raise ValueError(f"expected at least one example; {path} has none.")
    first_line, first = rows[0]
    for line, cells in rows:
        if len(cells) != len(first):
            raise ValueError(f"expected {len(first)} columns, as in line {first_line}; {location(path, line)} has {len(cells)}.")
    names = column_names(first)
    if header is None:
        named = (name for of_part in columns.values() for name in listed(of_part))
        header = not all(map(is_number, named)) or are_names(names, kind)
    if header and len(rows) == 1:
        raise ValueError(f"expected at least one example; {path} has only the names of columns.")
    rows = decoded_rows(first, rows[1:], path) if header else rows
    return table_of_cells([cells for _, cells in rows], str(path), [line for line, _ in rows], names if header else None)


def _read_json_lines(path):
    """The objects of a .jsonl file, one per line."""
    rows = [*json_objects(enumerate(read_lines(path), 1), path)]
    return table_of_rows([row for _, row in rows], str(path), [line for line, _ in rows])


def _read_json(path, kind, columns, labelled):
    """The list of objects, the object of lists or the questions in SQuAD's format of a .json file."""
    content = labelled_json(path)
    if isinstance(content, dict) and ("data" in content or not content):
        _check_kind(path, kind, "questions")
        if columns:
            raise ValueError(f"columns apply only to files with columns; {path} has SQuAD's format.")
        return read_squad(content, path, labelled)
    if isinstance(content, dict):
        return table_of_columns(content, str(path))
    odd = next((i for i, row in enumerate(content) if not isinstance(row, dict)), None) if isinstance(content, list) else 0
    if odd is not None:
        raise ValueError(f"expected a list of JSON objects; {path} has something else{f' at {odd}' if odd else ''}.")
    return table_of_rows(content, str(path))


def _read_parquet(path):
    """The table in a Parquet file."""
    try:
        with opened_parquet(path) as (file, sizes):
            check_limit("labelled_json_bytes", max(sum(sizes), path.stat().st_size), str(path))
            check_limit("labelled_json_values", file.metadata.num_rows * file.metadata.num_columns, str(path))
            return table_of_object(file.read(), str(path), Example)
    except FileNotFoundError:
        raise ValueError(f"expected a file of examples; {path} does not exist.") from None


def _read_texts(path, kind, labelled):
    """Every line of a file as a text."""
    if labelled:
        raise ValueError(f"expected a file with labels; {path} has only lines of text.")
    if 1 not in kind.by_width:
        raise ValueError(f"expected a file with columns; {path} has lines of text.")
    texts = read_lines(path)
    return table_of_cells([(text,) for text in texts], str(path), range(1, len(texts) + 1))
