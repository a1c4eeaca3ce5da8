"""Documents and queries with ids, from files, folders and objects; relevance judgements and runs, in TREC and BEIR files.

The formats of documents and queries are those of `data.document_rows`. The folder of a BEIR data set has `corpus.jsonl`,
`queries.jsonl` and, in `qrels`, judgements such as `test.tsv`.

Ids in files, and those of queries and judgements, are texts: 7 and "7" are the same. Documents in an object may have whole numbers
as ids, which stay so. An id has no white space, which separates the columns of TREC files.
"""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert_rebuild.data.document_rows import LINE_NUMBERS, names_by_part, rows_of_path
from keras_bert_rebuild.data.tables_of_columns import Table
from keras_bert_rebuild.data.tables_of_objects import table_of_object, tables_of_object
from keras_bert_rebuild.data.text_files import location, read_lines, stream_lines, suffix_of
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import is_of_type


class Document(NamedTuple):
    """A text that can be searched for."""

    id: str | int
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


def documents_in(source: Any) -> Iterator[Document]:
    """Yield documents in order, in memory that does not grow with their number, but for .json and dictionaries of lists.

    Args:
        source: a file or folder, see `data.document_rows`; a list or an iterator of `Document`s or of dictionaries; a dictionary of
            lists, a DataFrame, a `datasets.Dataset`, an Arrow table, or what has Arrow's stream interface. A row has an id (`id`,
            `_id`, `docid` and the like), a text (`text`, `contents` and the like) and perhaps a `title`; everything else with a
            value is metadata, also what is in a dictionary `metadata`.

    Raises:
        ValueError: the format is unknown, a row has no id or no text, or a file is damaged or not UTF-8; the error names the line
            or the index. Duplicate ids are not detected, since that would take memory: an index detects them.
    """
    return _documents(source, "corpus", "documents", ("id", "text", "title"))


def read_queries(source: Any) -> dict[str, str]:
    """Queries, `{id: text}`, in their order.

    Args:
        source: as for `documents_in`, but for plain texts, which have no ids for judgements to refer to; a folder has a file
            `queries`, such as `queries.jsonl`. Or a dictionary from ids to texts.

    Raises:
        ValueError: there are no queries, an id occurs twice, or as for `documents_in`.
    """
    if isinstance(source, (str, os.PathLike)) and suffix_of(source) in LINE_NUMBERS:
        raise ValueError(f"expected queries with ids, such as a .jsonl file of _id and text; {printable(source)} has only texts.")
    if isinstance(source, Mapping) and all(isinstance(text, str) for text in source.values()):
        source = [{"id": name, "text": text} for name, text in source.items()]
    queries: dict[str, str] = {}
    for query in _documents(source, "queries", "queries", ("id", "text")):
        if str(query.id) in queries:
            raise ValueError(f"expected unique query ids; {_shown(source, 'queries')} has {printable(query.id)!r} again.")
        queries[str(query.id)] = query.text
    if not queries:
        raise ValueError(f"expected at least one query; {_shown(source, 'queries')} has none.")
    return queries


def _shown(source, what):
    return printable(source) if isinstance(source, (str, os.PathLike)) else what


def _documents(source, name, what, columns):
    """Yield the documents or queries of a source.

    Args:
        source: see `documents_in`.
        name, columns: as for `rows_of_path`.
        what: how an object is named in errors.
    """
    if isinstance(source, (str, os.PathLike)):
        for row, where in rows_of_path(source, name, columns):
            document = _document(row, where)
            yield document._replace(id=str(document.id))
        return
    count = 0
    for part in tables_of_object(source, what, Document):
        rows = part if isinstance(part, list) else part.rows
        if rows is not part and rows and not part.named:
            raise ValueError(f"expected dictionaries with an id and a text, or Documents; {what} has {part.listed}.")
        for row in rows:
            where = f"{what}[{count}]"
            yield _checked(row, where) if isinstance(row, Document) else _document(row, where)
            count += 1


def _document(row, where):
    """The document of a row, a dictionary."""
    parts = names_by_part(tuple(row))
    if not {"id", "text"} <= parts.keys():
        listed = printable(", ".join(map(str, row))) or "nothing"
        raise ValueError(f"expected an id and a text, such as _id and text; {where} has {listed}.")
    title = row[parts["title"]] if "title" in parts else None
    used = {*parts.values()}
    metadata = {str(name): value for name, value in row.items() if name not in used and value is not None}
    inner = metadata.get("metadata")
    if isinstance(inner, Mapping):
        del metadata["metadata"]
        twice = next((name for name in inner if name in metadata), None)
        if twice is not None:
            raise ValueError(f"expected a name of metadata once; {where} has {printable(twice)} in metadata, too.")
        metadata |= {name: value for name, value in inner.items() if value is not None}
    return _checked(Document(row[parts["id"]], "" if title is None else title, row[parts["text"]], metadata), where)


def _checked(document, where):
    """The document, its title without white space around it.

    Raises:
        ValueError: its id is neither a word nor a whole number of at most 63 bits, or title or text are no strings.
    """
    name = document.id
    word = str(name) if isinstance(name, str) or is_of_type(name, int) else ""
    if len(word.split()) != 1 or word != word.strip() or "\0" in word:
        raise ValueError(f"expected an id, a word without white space; {where} has {name!r:.40}.")
    check_limit("document_id_characters", len(word), f"the id in {where}")
    for part in ("text", "title"):
        value = getattr(document, part)
        if not isinstance(value, str):
            raise ValueError(f"expected a string as {part}; got {value!r:.40} in {where}.")
    return document if document.title == document.title.strip() else document._replace(title=document.title.strip())


# The header of BEIR's judgements.
BEIR = ("query-id", "corpus-id", "score")


def is_beir(source: Any) -> bool:
    """Whether judgements are in a file with BEIR's header, or in a folder of BEIR: there queries do not find themselves.

    Args:
        source: as for `read_judgements`.
    """
    if not isinstance(source, (str, os.PathLike)):
        return False
    _, header = next(stream_lines(_judgements_file(source)), (0, ""))
    return tuple(header.rstrip("\r\n").split("\t")) == BEIR


def read_judgements(source: Any) -> dict[str, dict[str, int]]:
    """Read relevance judgements ("qrels").

    Args:
        source: a file in UTF-8, possibly compressed (`.gz` or `.xz`): TREC, with query, an unused column, document and grade on
            each line; or BEIR, with query, document and grade separated by tabs, under a header `query-id`, `corpus-id`, `score`.
            A folder in BEIR's format, of whose `qrels` the file `test.tsv` or the only one is read. `{query: {document: grade}}`,
            or another object as for `documents_in`, with columns such as those of BEIR.

    Returns:
        `{query: {document: grade}}` in the order of the source.

    Raises:
        ValueError: a line has other columns, a grade is not an integer of at most 63 bits, or a document is judged twice; the error
            names the line.
    """
    judgements: dict[str, dict[str, int]] = {}
    if not isinstance(source, (str, os.PathLike)):
        for query, document, grade, where in _judgements_of_object(source):
            if not is_of_type(grade, int):
                raise ValueError(f"expected a whole number as grade; {where} has {grade!r:.40}.")
            _add(judgements, str(query), str(document), int(grade), where)
        return judgements
    path = _judgements_file(source)
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


def _judgements_of_object(source):
    """Yield `(query, document, grade, where)`."""
    if isinstance(source, Mapping) and all(isinstance(grades, Mapping) for grades in source.values()):
        for query, grades in source.items():
            yield from ((query, document, grade, f"judgements[{query!r}]") for document, grade in grades.items())
        return
    table = table_of_object(source, "judgements", Document)
    parts = names_by_part(tuple(table.names), "judgement") if isinstance(table, Table) else {}
    if len(parts) < 3:
        raise ValueError(f"expected the columns {', '.join(BEIR)}; judgements has {getattr(table, 'listed', 'documents')}.")
    for i, row in enumerate(table.rows):
        yield *(row.get(parts[part]) for part in ("query", "document", "grade")), table.where(i)


def _judgements_file(source):
    """A file of judgements, or that of a folder in BEIR's format."""
    path = Path(source)
    if not path.is_dir():
        return path
    files = {file.name.split(".")[0]: file for file in sorted(path.glob("qrels/*")) if suffix_of(file) == ".tsv"}
    if "test" not in files and len(files) != 1:
        listed = ", ".join(file.name for file in files.values()) or "none"
        raise ValueError(f"expected a folder with judgements in qrels/test.tsv, or in one file; {printable(path)} has {listed}.")
    return files["test"] if "test" in files else next(iter(files.values()))


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
            columns = str(query), "Q0", str(document), str(rank), repr(float(scores[document])), name
            wrong = next((column for column in columns if len(column.split()) != 1 or column != column.strip()), None)
            if wrong is not None or math.isnan(scores[document]):
                shown = "NaN" if wrong is None else repr(wrong)
                raise ValueError(f"a run must have names without white space and no NaN scores; got {shown} for query {query!r}.")
            lines.append(" ".join(columns) + "\n")
    write_text(path, "".join(lines))


def _add(table, query, document, value, where):
    values = table.setdefault(query, {})
    if document in values:
        raise ValueError(f"expected a document at most once per query; {where} has {document!r} again for {query!r}.")
    values[document] = value
