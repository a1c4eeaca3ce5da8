"""Read a file of examples of any format."""

import os
from collections.abc import Mapping
from typing import Any

from keras_bert_rebuild.data.labelled.example_kinds import KINDS, Kind
from keras_bert_rebuild.data.labelled.read_labelled_rows import LISTS, read_json_lines, read_plain_lines, read_table
from keras_bert_rebuild.data.labelled.read_squad_and_conll import read_squad, read_words
from keras_bert_rebuild.data.text_files import suffix_of

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
    if format in ("conll", "conllu"):
        _check_format(kind, "tagging", path)
        return _without_others(read_words(path, format, named, labelled))
    if format == "squad":
        _check_format(kind, "questions", path)
        return _without_others(read_squad(path, labelled))
    if format == "txt":
        if labelled:
            raise ValueError(f"expected a file with labels; {path} has only lines of text.")
        rows = read_plain_lines(path, kind)
    elif format == "jsonl":
        rows = read_json_lines(path, kind, named, labelled)
    else:
        rows = read_table(path, _TABLES[format], kind, named, header, labelled)
    if not labelled:
        unknown = lambda part, value: value == "" and part in (kind.target, "label")  # noqa: E731
        rows = [({part: value for part, value in parts.items() if not unknown(part, value)}, *rest) for parts, *rest in rows]
    examples = [kind.make(parts, where) for parts, where, _ in rows]
    if labelled and kind.needed:
        for example in examples:
            if example.right() is None:
                raise ValueError(f"expected {kind.needed}; {example.where} has none.")
    return examples, [others for _, _, others in rows]


def _without_others(examples):
    return examples, [{} for _ in examples]


def _check_format(kind, expected, path):
    if kind.name != expected:
        raise ValueError(f"expected a file for {kind.name}; {path} has the format of {expected}.")
