"""Rows with an id and a text in files of any format and in folders, one after the other: memory does not grow with their number.

    .jsonl, .ndjson    an object on every line: BEIR's (`_id`, `title`, `text`, `metadata`), pyserini's (`id`, `contents`) or others
    .csv, .tsv         a table with names in its first row, or of id, text and optionally title, see `data.tables`
    .parquet           a table
    .json              a list of objects, one object, or an object of lists; the whole file is in memory
    .txt, .md          a text on every line; its id is the number of the line, from 1
    others             TREC's `<DOC>` with `<DOCNO>`, `<TITLE>` or `<HEADLINE>`, and `<TEXT>`

All but .parquet are UTF-8 and may be compressed (`.gz` or `.xz`). A folder is BEIR's if it has a file `corpus`, such as
`corpus.jsonl`; else a collection, all files of which are read in the order of their names, and those in folders inside of it.
"""

import functools
import html
import itertools
import re
from pathlib import Path

from keras_bert_rebuild.data.labelled.read_squad_and_conll import labelled_json
from keras_bert_rebuild.data.tables import cells_of, column_names, decoded_rows, delimiter_of, json_objects
from keras_bert_rebuild.data.tables_of_columns import table_of_columns
from keras_bert_rebuild.data.tables_of_objects import PART, opened_parquet, table_of_object
from keras_bert_rebuild.data.text_files import location, opened, stream_lines, suffix_of
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable

_DOCUMENT_IDS = ("docid", "doc_id", "document_id", "docno", "corpus-id", "corpus_id", "pid")
_QUERY_IDS = ("qid", "query_id", "query-id")
# What the parts of a document or query, and of a judgement, are called; of several the first here.
NAMES = {
    "document": {
        "id": ("_id", "id", *_DOCUMENT_IDS, *_QUERY_IDS),
        "text": ("text", "contents", "content", "body", "passage", "document", "query", "question"),
        "title": ("title",),
    },
    "judgement": {
        "query": (*_QUERY_IDS, "query"),
        "document": (*_DOCUMENT_IDS, "document"),
        "grade": ("score", "grade", "relevance", "rel", "label"),
    },
}
# Formats, by suffix or by how files begin, and those of them in which ids are the numbers of lines.
TREC = "<DOC>"
LINE_NUMBERS = (".txt", ".md")
_TAG = re.compile("<[^>]*>")


@functools.lru_cache(maxsize=256)
def names_by_part(names, kind="document"):
    """The name of each part of a document, or "judgement", among a tuple of names: `{"id": "docid", "text": "contents"}`."""
    lower = {str(name).strip().lower(): name for name in reversed(names)}
    spelled = {part: next((each for each in spellings if each in lower), None) for part, spellings in NAMES[kind].items()}
    return {part: lower[spelling] for part, spelling in spelled.items() if spelling is not None}


def rows_of_path(path, name, columns):
    """Yield `(row, where)` for every row of a file or folder: its values by name, and how it is named in errors.

    Args:
        path: a file or folder as described above.
        name: "corpus" or "queries", the file of a folder in BEIR's format.
        columns: the names of the columns of a table that has none; the last of three may be left out.

    Raises:
        ValueError: there is no such file, its format is unknown, or it is damaged; the error names the line.
    """
    for file in _files_of(Path(path), name):
        yield from _READERS[_format_of(file)](file, columns)


def _file_named(folder, name):
    """The file of a folder that is called so, whatever its format; None if there is none.

    Raises:
        ValueError: there are several.
    """
    files = [file for file in sorted(folder.iterdir()) if file.name.split(".")[0] == name and suffix_of(file) in _READERS]
    if len(files) > 1:
        raise ValueError(f"expected one file {name} in {printable(folder)}; it has {', '.join(file.name for file in files)}.")
    return files[0] if files else None


def _files_of(path, name):
    if path.is_file():
        if _format_of(path) is None:
            *suffixes, trec = _READERS
            raise ValueError(
                f"expected a file whose name ends in {', '.join(suffixes)}, before .gz or .xz, or one that begins with {trec}; "
                f"got {printable(path)}."
            )
        return [path]
    if not path.is_dir():
        what = "is neither" if path.exists() else "does not exist"
        raise ValueError(f"expected a file or folder for the {name}; {printable(path)} {what}.")
    file = _file_named(path, name)
    if file is not None:
        return [file]
    if name == "queries":
        raise ValueError(f"expected a folder with a file queries, such as queries.jsonl; {printable(path)} has none.")
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and not _is_hidden(file.relative_to(path)))
    formats = {file: of for file in files if (of := _format_of(file)) is not None and of not in LINE_NUMBERS}
    if len({*formats.values()}) != 1:
        listed = ", ".join(f"{file.name} ({of})" for of, file in sorted({of: file for file, of in formats.items()}.items()))
        raise ValueError(
            f"expected a folder with a file corpus, or with files of one format that have ids; {printable(path)} has "
            f"{printable(listed) or 'none'}."
        )
    return [*formats]


def _is_hidden(path):
    return any(part.startswith(".") for part in path.parts)


def _format_of(file):
    """A key of `_READERS`; None for an unknown format."""
    suffix = suffix_of(file)
    if suffix in _READERS and suffix not in LINE_NUMBERS:
        return suffix
    with opened(file, "expected an intact compressed file") as (stream, _):
        begin = stream.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip().upper()
    return TREC if begin.startswith(TREC.encode()) else suffix if suffix in _READERS else None


def _rows_of_objects(path, columns):
    for number, row in json_objects(stream_lines(path), printable(path)):
        yield row, location(printable(path), number)


def _rows_of_json(path, columns):
    content = labelled_json(path)
    if isinstance(content, dict):
        is_table = all(isinstance(values, list) for values in content.values())
        content = table_of_columns(content, printable(path)).rows if is_table else [content]
    odd = next((i for i, row in enumerate(content) if not isinstance(row, dict)), None) if isinstance(content, list) else 0
    if odd is not None:
        raise ValueError(f"expected a list of JSON objects; {printable(path)} has something else{f' at {odd}' if odd else ''}.")
    for i, row in enumerate(content):
        yield row, f"{printable(path)}[{i}]"


def _rows_of_parquet(path, columns):
    with opened_parquet(path) as (file, sizes):
        check_limit("labelled_json_bytes", max(sizes, default=0), f"a row group of {printable(path)}")
        first = 0
        for batch in file.iter_batches(PART):
            table = table_of_object(batch, printable(path), dict, first)
            yield from ((row, table.where(i)) for i, row in enumerate(table.rows))
            first += len(batch)


def _rows_of_cells(path, columns):
    """The rows of a table; an empty cell is no value, and numbers are texts unless the name of their column ends in `:json`."""
    lines, delimiter = stream_lines(path), "\t"
    if suffix_of(path) == ".csv":
        before = []
        for each in lines:
            before.append(each)
            if each[1].strip():
                break
        delimiter = delimiter_of(before[-1][1] if before else "")
        lines = itertools.chain(before, lines)
    else:
        lines = ((number, line.rstrip("\r\n")) for number, line in lines)
    rows = cells_of(lines, printable(path), delimiter)
    line, first = next(rows, (0, []))
    if not first:
        return
    names = _names_of_table(first, location(printable(path), line))
    if names is None:
        rows = itertools.chain([(line, first)], rows)
    for line, cells in rows:
        where = location(printable(path), line)
        if len(cells) not in ({2, len(columns)} if names is None else {len(names)}):
            listed = " and ".join(columns) if len(columns) == 2 else "id, text and optionally title"
            expected = f"{listed}, or a first row of names" if names is None else f"{len(names)} columns, as in the first row"
            raise ValueError(f"expected {expected}; {where} has {len(cells)} column{'s' * (len(cells) != 1)}.")
        if names is None:
            yield dict(zip(columns, cells, strict=False)), where
            continue
        ((_, values),) = decoded_rows(first, [(line, cells)], printable(path))
        needed = {*names_by_part(names).values()}
        yield {name: value for name, value in zip(names, values, strict=True) if value != "" or name in needed}, where


def _names_of_table(first, where):
    """The names in the first row of a table; None if it has values."""
    names = tuple(column_names(first))
    parts = names_by_part(names)
    if len(names) == 1 or "id" not in parts or ("text" not in parts and parts["id"] != names[0]):
        return None
    twice = next((name for name in names if names.count(name) > 1), None)
    if "text" not in parts or twice is not None:
        listed = printable(", ".join(names))
        raise ValueError(f"expected names of columns, an id, a text and others, once each; {where} has {listed}.")
    return names


def _rows_of_texts(path, columns):
    for number, line in stream_lines(path):
        if line.strip():
            yield {"id": number, "text": line.rstrip("\r\n")}, location(printable(path), number)


def _rows_of_trec(path, columns):
    """The documents of a file in the format of TREC's collections, such as disks 4 and 5."""
    lines, begin, characters = None, 0, 0
    for number, line in stream_lines(path):
        mark = line.strip().upper()
        if mark.startswith(TREC):
            if lines is not None:
                break
            lines, begin, characters = [], number, 0
        if lines is None:
            continue
        lines.append(line)
        characters += len(line)
        check_limit("cell_characters", characters, f"the document from {location(printable(path), begin)}")
        if mark.endswith("</DOC>"):
            content, lines = "".join(lines), None
            title = next((part for tag in ("TITLE", "HEADLINE", "HEAD", "TI") for part in _inside(tag, content)), "")
            where = location(printable(path), begin)
            yield {"id": "".join(_inside("DOCNO", content)), "title": title, "text": " ".join(_inside("TEXT", content))}, where
    if lines is not None:
        raise ValueError(f"expected </DOC> at the end of a document; {location(printable(path), begin)} has none.")


def _inside(tag, content):
    """The texts of an element, without the tags in it."""
    parts = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", content, re.DOTALL | re.IGNORECASE)
    return [" ".join(html.unescape(_TAG.sub(" ", part)).split()) for part in parts]


_READERS = {
    ".jsonl": _rows_of_objects,
    ".ndjson": _rows_of_objects,
    ".json": _rows_of_json,
    ".csv": _rows_of_cells,
    ".tsv": _rows_of_cells,
    ".parquet": _rows_of_parquet,
    ".txt": _rows_of_texts,
    ".md": _rows_of_texts,
    TREC: _rows_of_trec,
}
