"""Relevance judgements and rankings in TREC and BEIR files."""

import math
import os
from collections.abc import Mapping

from keras_bert_rebuild.data.text_files import location, read_lines
from keras_bert_rebuild.files.durable import write_text
from keras_bert_rebuild.files.limits import is_of_type

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
    found: dict[str, dict[str, int]] = {}
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
        _add(found, query, document, value, where)
    return found


def read_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read the scores of documents for queries from a TREC run: query, `Q0`, document, rank, score and name of the run per line.

    Args:
        path: a file in UTF-8, possibly compressed (`.gz` or `.xz`). Ranks are ignored: like trec_eval, ranking is by score.

    Returns:
        `{query: {document: score}}` in the order of the file.

    Raises:
        ValueError: a line has other columns, a score is not a number, or a document occurs twice; the error names the line.
    """
    found: dict[str, dict[str, float]] = {}
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
        _add(found, query, document, value, where)
    return found


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


def _add(found, query, document, value, where):
    of_query = found.setdefault(query, {})
    if document in of_query:
        raise ValueError(f"expected a document at most once per query; {where} has {document!r} again for {query!r}.")
    of_query[document] = value
