"""Documents and queries with ids, from BEIR files, tables and plain text; relevance judgements and runs, in TREC and BEIR files.

    corpus.jsonl    BEIR: on every line an object with `_id`, `text` and optionally `title`
    corpus.tsv      id, text and optionally title, separated by tabs, or in the order of a first line with such names
    corpus.txt      a document per line; its id is the line number, from 1
    queries.jsonl   BEIR: `_id` and `text`
    queries.tsv     id and text, or a first line with such names

All are UTF-8 and may be compressed (`.gz` or `.xz`). An id has no white space, which separates the columns of TREC files.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_rebuild.data.text_files import LONGEST_LINE, location, opened, read_lines, suffix_of
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import is_of_type

_JSON = (".jsonl", ".ndjson")
_PLAIN = (".txt", ".md")
# Column names of a table by part, in the order of a table without a header.
_COLUMNS = {
    "id": ("id", "_id", "docid", "doc_id", "document_id", "corpus-id", "corpus_id", "pid", "qid", "query_id", "query-id"),
    "text": ("text", "contents", "content", "body", "passage", "document", "query", "question"),
    "title": ("title",),
}
_UNNAMED = tuple(_COLUMNS)


class Document(NamedTuple):
    """A text that can be searched for."""

    id: str
    """Its id in the corpus."""

    title: str
    """Its title, or an empty string."""

    text: str
    """Its text without the title."""

    metadata: dict[str, Any] = {}  # noqa: RUF012
    """Further values by name."""

    @property
    def full_text(self) -> str:
        """The text as models read it: title and text, joined by a space as in BEIR."""
        return f"{self.title} {self.text}" if self.title else self.text


def read_corpus(path: str | os.PathLike[str]) -> Iterator[Document]:
    """Yield the documents of a file in order, using constant memory.

    Args:
        path: a file as described above. Empty lines are skipped.

    Raises:
        ValueError: the suffix of the file is unknown, a line has no id or no text, or the file is damaged or not UTF-8; the error
            names the line. Duplicate ids are not detected, since that would take memory: `documents.py` detects them.
    """
    path = _checked(path, "a corpus")
    suffix, header = suffix_of(path), None
    for number, line in _lines(path):
        where = location(printable(path), number)
        if suffix in _JSON:
            yield _of_json(line, where)
        elif suffix in _PLAIN:
            yield Document(str(number), "", line)
        elif number > 1 or (header := _header(line.split("\t"), where)) is None:
            yield _of_columns(line.split("\t"), where, header or _UNNAMED)


def documents_in(source: Any) -> Iterator[Document]:
    """Yield the documents of a file or of an object."""
    if isinstance(source, (str, os.PathLike)):
        yield from read_corpus(source)
        return
    for each in source:
        if isinstance(each, Document):
            yield each
        else:
            rest = {name: value for name, value in each.items() if name not in ("id", "title", "text")}
            yield Document(each["id"], each.get("title") or "", each["text"], rest)


def read_queries(path: str | os.PathLike[str]) -> dict[str, str]:
    """The queries of a file, `{id: text}`, in file order.

    Args:
        path: a `.jsonl` or `.tsv` file as described above. Ids are required, since judgements refer to them.

    Raises:
        ValueError: the file has no ids or no queries, an id occurs twice, or as for `read_corpus`.
    """
    path = _checked(path, "queries")
    if suffix_of(path) in _PLAIN:
        raise ValueError(
            f"expected queries with ids, a .jsonl file of _id and text or a .tsv file; {printable(path)} has only texts."
        )
    queries: dict[str, str] = {}
    header = None
    for number, line in _lines(path):
        where = location(printable(path), number)
        if suffix_of(path) in _JSON:
            query = _of_json(line, where)
        elif number == 1 and (header := _header(line.split("\t"), where)) is not None:
            continue
        else:
            query = _of_columns(line.split("\t"), where, header or _UNNAMED[:2])
        if query.id in queries:
            raise ValueError(f"expected unique query ids; {where} has {printable(query.id)!r} again.")
        queries[query.id] = query.text
    if not queries:
        raise ValueError(f"expected at least one query; {printable(path)} has none.")
    return queries


def checked_id(value: object, where: str) -> str:
    """An id as a string.

    Raises:
        ValueError: it is neither a string nor an integer, is empty, or contains white space.
    """
    name = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if len(name.split()) != 1 or name != name.strip() or "\0" in name:
        raise ValueError(f"expected an id, a word without white space; {where} has {value!r:.40}.")
    check_limit("document_id_characters", len(name), f"the id in {where}")
    return name


def _checked(path, what):
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"expected a file of {what}; {printable(path)} {'is a folder' if path.is_dir() else 'does not exist'}.")
    suffixes = (*_JSON, ".tsv", *_PLAIN)
    if suffix_of(path) not in suffixes:
        raise ValueError(f"expected a file whose name ends in {', '.join(suffixes)}, before .gz or .xz; got {printable(path)}.")
    return path


def _lines(path):
    """Yield `(number, line)` for every line that is not empty, without its line end."""
    with opened(path) as (stream, _):
        number = 0
        while content := stream.readline(4 * LONGEST_LINE + 2):
            number += 1
            try:
                line = content.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"expected text in UTF-8; {location(path, number)} is not, at byte {error.start}.") from None
            if len(line) > LONGEST_LINE:
                check_limit("cell_characters", len(line), location(path, number))
            if line and not line.isspace():
                yield number, line


def _of_json(line, where):
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a JSON object; {where} is not one: {printable(error)}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object with _id and text; got {line!r:.60} in {where}.")
    name = next((name for name in ("_id", "id") if name in value), None)
    if name is None:
        raise ValueError(f"expected an object with _id; {where} has {', '.join(map(repr, value)) or 'nothing'}.")
    title = value.get("title")
    for part, text in (("text", value.get("text")), ("title", "" if title is None else title)):
        if not isinstance(text, str):
            raise ValueError(f"expected a string as {part}; got {text!r:.40} in {where}.")
    return Document(checked_id(value[name], where), (title or "").strip(), value["text"])


def _header(cells, where):
    """The parts that the first line of a table names, in its order; None if it does not begin with the name of an id."""
    names = [cell.strip().lower() for cell in cells]
    parts = tuple(next((part for part, spellings in _COLUMNS.items() if name in spellings), name) for name in names)
    if parts[0] != "id" or len(parts) == 1:
        return None
    if not {"id", "text"} <= {*parts} <= {*_COLUMNS} or len({*parts}) < len(parts):
        raise ValueError(f"expected a header with an id, a text and optionally a title, once each; {where} has {', '.join(names)}.")
    return parts


def _of_columns(cells, where, parts):
    if len(cells) not in ({2, len(parts)} if parts == _UNNAMED else {len(parts)}):
        columns = "id, text and optionally title" if parts == _UNNAMED else " and ".join([", ".join(parts[:-1]), parts[-1]])
        raise ValueError(f"expected {columns}, separated by tabs; {where} has {len(cells)} column{'s' * (len(cells) != 1)}.")
    fields = dict(zip(parts, cells, strict=False))
    return Document(checked_id(fields["id"], where), fields.get("title", "").strip(), fields["text"])


# The header of BEIR's judgements.
BEIR = ("query-id", "corpus-id", "score")


def is_beir(path: str | os.PathLike[str]) -> bool:
    """Whether a file of judgements has BEIR's header."""
    return tuple(read_lines(path)[0].split("\t")) == BEIR


def read_judgements(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Read relevance judgements ("qrels").

    Args:
        path: a file in UTF-8, possibly compressed (`.gz` or `.xz`): TREC, with query, an unused column, document and grade on each
            line; or BEIR, with query, document and grade separated by tabs, under a header `query-id`, `corpus-id`, `score`.

    Returns:
        `{query: {document: grade}}` in the order of the file.

    Raises:
        ValueError: a line has other columns, a grade is not an integer of at most 63 bits, or a document is judged twice; the error
            names the line.
    """
    judgements: dict[str, dict[str, int]] = {}
    lines = read_lines(path)
    beir = tuple(lines[0].split("\t")) == BEIR
    for number, line in enumerate(lines[beir:], 1 + beir):
        if not line.strip():
            continue
        where = location(path, number)
        columns = line.split("\t") if beir else line.split()
        expected = BEIR if beir else ("query", "0", "document", "grade")
        if len(columns) != len(expected):
            raise ValueError(f"expected {len(expected)} columns, {', '.join(expected)}; {where} has {len(columns)}.")
        query, *_, document, grade = columns
        try:
            value = int(grade)
        except ValueError:
            value = None
        if not is_of_type(value, int):
            raise ValueError(f"expected a whole number as grade; {where} has {grade!r:.40}.")
        _add(judgements, query, document, value, where)
    return judgements


def read_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read the scores of documents for queries from a TREC run: query, `Q0`, document, rank, score and name of the run per line.

    Args:
        path: a file in UTF-8, possibly compressed (`.gz` or `.xz`). Ranks are ignored: like trec_eval, ranking is by score.

    Returns:
        `{query: {document: score}}` in the order of the file.

    Raises:
        ValueError: a line has other columns, a score is not a number, or a document occurs twice; the error names the line.
    """
    run: dict[str, dict[str, float]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where, columns = location(path, number), line.split()
        if len(columns) != 6:
            raise ValueError(f"expected 6 columns, query, Q0, document, rank, score and name; {where} has {len(columns)}.")
        query, _, document, _, score, _ = columns
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise ValueError(f"expected a number as score; {where} has {score!r:.40}.")
        _add(run, query, document, value, where)
    return run


def write_run(path: str | os.PathLike[str], run: Mapping[str, Mapping[str, float]], name: str = "keras-bert") -> None:
    """Write a TREC run, documents ranked by score; the file is written atomically.

    Args:
        path: the file, replaced if it exists.
        run: `{query: {document: score}}`.
        name: name of the run.

    Raises:
        ValueError: a query, a document or the name is empty or has white space, which separates columns; a score is not a number.
    """
    lines = []
    for query, scores in run.items():
        for rank, document in enumerate(sorted(scores, key=lambda each: -scores[each]), 1):
            columns = query, "Q0", document, str(rank), repr(float(scores[document])), name
            wrong = next((column for column in columns if len(column.split()) != 1 or column != column.strip()), None)
            if wrong is not None or math.isnan(scores[document]):
                shown = "NaN" if wrong is None else repr(wrong)
                raise ValueError(f"a run must have names without white space and no NaN scores; got {shown} for query {query!r}.")
            lines.append(" ".join(columns) + "\n")
    write_text(path, "".join(lines))


def _add(table, query, document, value, where):
    of_query = table.setdefault(query, {})
    if document in of_query:
        raise ValueError(f"expected a document at most once per query; {where} has {document!r} again for {query!r}.")
    of_query[document] = value
