"""The table of an index in LanceDB: a folder or a place in object storage that holds versions, of which a reader sees one.

Every change is one commit: after a kill there is the old version or the new one. Readers keep the version that they opened.
"""

import contextlib
import datetime
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.documents import ID, TEXT, is_storable
from keras_bert_rebuild.search.exact_search import SPARE

DOCUMENTS, UNFINISHED = "documents", "unfinished"
# How long a reader may use a version after it was replaced, unless a snapshot keeps it.
KEPT = datetime.timedelta(days=1)
_MARGIN = datetime.timedelta(minutes=1)
# Numbers in one condition of a query.
_AT_ONCE = 1000
# In errors of the engine about a condition in SQL.
_OF_CONDITION = re.compile(r"Invalid input|No field named|return a boolean|filter expression|SQL")
_REMOTE = re.compile(r"[a-z0-9+]{2,}://")


def engine():
    """The package lancedb.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import lancedb
    except ModuleNotFoundError:
        raise ValueError("an index needs the package lancedb: pip install keras_bert_rebuild[search].") from None
    return lancedb


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether a place is an address of object storage, such as s3://bucket/index, and not a folder."""
    return _REMOTE.match(os.fspath(place)) is not None


class Table:
    """One version of a table.

    Args:
        place: a folder, or an address of object storage.
        name: name of the table.
        snapshot: a version with this name; None for the newest.

    Raises:
        ValueError: there is no such table or snapshot.
    """

    def __init__(self, place: str | os.PathLike[str], name: str = DOCUMENTS, snapshot: str | None = None) -> None:
        self.place, self._table = place, _opened(place, name)
        if self._table is None:
            raise ValueError(f"expected an index; nothing is at {printable(place)}: add documents first.")
        if snapshot is not None and snapshot not in self._table.tags.list():
            present = ", ".join(sorted(self._table.tags.list())) or "none"
            raise ValueError(f"expected a snapshot of {printable(place)}, {present}; got {printable(snapshot)!r}.")
        self._table.checkout(self._table.version if snapshot is None else snapshot)
        self.version: int = self._table.version

    @classmethod
    def create(
        cls,
        place: str | os.PathLike[str],
        name: str,
        schema: pa.Schema,
        language: str,
        rows: Iterable[pa.RecordBatch] | None = None,
    ) -> "Table":
        """A new table.

        Args:
            place, name: as for the class.
            schema: names and types of the columns.
            language: language of the texts, for the stems and stop words of BM25.
            rows: the rows that replace a table of this name, in one commit; None for an empty table.
        """
        if rows is None:
            _connection(place).create_table(name, schema=schema)
        else:
            _connection(place).create_table(name, pa.RecordBatchReader.from_batches(schema, rows), mode="overwrite")
        table = cls(place, name)
        if name == DOCUMENTS:
            table.index_words(language)
        return table

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns; its metadata are the settings of the index."""
        return self._table.schema

    def __len__(self) -> int:
        return self._table.count_rows()

    def count(self, where: str | None) -> int:
        """The number of rows that fulfil a condition."""
        with self._reading():
            return self._table.count_rows(where)

    def batches(self, columns: Sequence[str], where: str | None = None, size: int = 8192) -> Iterator[pa.RecordBatch]:
        """Yield columns, and `_rowid`, of the rows that fulfil a condition, in the order of the table.

        Args:
            columns: their names.
            where: a condition in SQL; None for all rows.
            size: maximum number of rows of a batch.
        """
        query = self._table.search().select([*columns]).with_row_id(True)
        with self._reading():
            yield from (query if where is None else query.where(where)).to_batches(batch_size=size)

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers, of all rows in the order of `batches`."""
        parts = [batch.column(name).to_numpy() for batch in self.batches([ID if name == "_rowid" else name])]
        return np.concatenate(parts) if parts else np.zeros(0, "uint64")

    def take(self, rows: npt.NDArray[np.uint64], columns: Sequence[str]) -> pa.Table:
        """Columns, and `_rowid`, of rows by ascending number."""
        with self._reading():
            return self._table.take_row_ids(rows.tolist()).select([*columns]).with_row_id().to_arrow()

    def with_ids(self, ids: Sequence[Any], columns: Sequence[str]) -> pa.Table:
        """Columns, and `_rowid`, of the rows with these ids, in any order."""
        tables = []
        with self._reading():
            for first in range(0, len(ids), _AT_ONCE):
                part = ids[first : first + _AT_ONCE]
                query = self._table.search().where(self._is_one_of(part)).select([*columns])
                tables.append(query.with_row_id(True).limit(len(part)).to_arrow())
        return pa.concat_tables(tables)

    def bm25(self, query: str, count: int, where: str | None) -> list[tuple[Any, int, float]]:
        """The best rows for the words of a query by BM25: `(id, row number, score)`, best first."""
        from lancedb.query import MatchQuery

        search = self._table.search(MatchQuery(query, TEXT)).select([ID, "_score"]).with_row_id(True)
        search, limit = search if where is None else search.where(where), count + SPARE
        while True:
            with self._reading():
                rows = search.limit(limit).to_list()
            ranked = sorted(((row["_score"], row[ID], row["_rowid"]) for row in rows), reverse=True)
            if len(ranked) < limit or ranked[-1][0] < ranked[count - 1][0]:
                return [(name, number, score) for score, name, number in ranked[:count]]
            limit *= 8  # more rows may have the score of the last

    def nearest(self, vector: npt.NDArray[np.float32], column: str, count: int, where: str | None) -> list[int]:
        """The numbers of rows whose vectors probably have the largest dot products with a vector."""
        search = self._table.search(vector, vector_column_name=column).distance_type("dot").select([ID, "_distance"])
        with self._reading():
            rows = (search if where is None else search.where(where)).with_row_id(True).limit(count).to_list()
        return [row["_rowid"] for row in rows]

    def add(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Append rows, in one commit."""
        with self._committing():
            self._table.add(pa.RecordBatchReader.from_batches(self.schema, (batch.select(self.schema.names) for batch in rows)))

    def replace(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Replace the rows of these ids, and append those of new ids, in one commit."""
        with self._committing():
            reader = pa.RecordBatchReader.from_batches(self.schema, (batch.select(self.schema.names) for batch in rows))
            self._table.merge_insert(ID).when_matched_update_all().when_not_matched_insert_all().execute(reader)

    def delete(self, ids: Sequence[Any]) -> int:
        """Delete the rows of these ids, in one commit, and return how many there were."""
        with self._committing():
            return self._table.delete(self._is_one_of(ids)).num_deleted_rows

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns without values."""
        with self._committing():
            self._table.add_columns([*fields])

    def tidy(self) -> None:
        """Merge small parts, bring the word index up to date, and remove versions that nobody may read any more.

        The engine removes no version if one that has a name is as old, so those since the first snapshot stay.
        """
        named = {*self.tags.values()}
        times = [each["timestamp"] for each in self._table.list_versions() if each["version"] in named] if named else []
        ages = [datetime.datetime.now(each.tzinfo) - each + _MARGIN for each in times]
        with contextlib.suppress(ValueError), self._committing():  # another writer came first, and tidies up
            self._table.optimize(cleanup_older_than=max([KEPT, *ages]))

    def index_words(self, language: str) -> None:
        """Index the words of the texts for BM25, unless they are.

        Args:
            language: language of the texts, for the stems and stop words of BM25; "none" to have neither.
        """
        from lancedb.index import FTS

        if not self.has_index(TEXT):
            self._table.checkout_latest()
            # The segmenter for scripts without spaces is not for all: its stop words are those of every language, "war" and "die".
            without = {"base_tokenizer": "icu/split", "stem": False, "remove_stop_words": False}
            self._table.create_index(TEXT, config=FTS(**(without if language == "none" else {"language": language})))

    def has_index(self, column: str) -> bool:
        """Whether a column is indexed."""
        return any(index.columns == [column] for index in self._table.list_indices())

    def index_vectors(self, column: str) -> None:
        """Index vectors for approximate search."""
        from lancedb.index import IvfFlat

        self._table.checkout_latest()
        self._table.create_index(column, config=IvfFlat(distance_type="dot"))

    def _is_one_of(self, ids):
        """The condition that an id is one of some; those that no document of this table can have are left out."""
        kind = str if pa.types.is_string(self.schema.field(ID).type) else (int, np.integer)
        own = [each for each in ids if isinstance(each, kind) and is_storable(each)]
        quoted = ("'" + each.replace("'", "''") + "'" if kind is str else str(each) for each in own)
        return f"{ID} IN ({', '.join(quoted)})" if own else "false"

    @contextlib.contextmanager
    def _committing(self):
        """A change of the newest version; the engine refuses the second of two that contradict each other."""
        self._table.checkout_latest()
        try:
            yield
        except RuntimeError as error:
            if "conflict" not in str(error).lower():
                raise
            raise ValueError(f"another process changed {printable(self.place)} at the same time: repeat the command.") from None

    def _reading(self):
        return _readable_errors(self.place)

    def tag(self, name: str) -> None:
        """Name this version, and keep it.

        Raises:
            ValueError: it is not a name of letters, digits and . - _.
        """
        if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name) is None or name.endswith(".lock"):
            raise ValueError(f"expected a name of letters, digits and . - _ for a snapshot; got {printable(name)!r}.")
        self._table.tags.create(name, self.version)

    @property
    def tags(self) -> dict[str, int]:
        """The named versions."""
        return {name: tag["version"] for name, tag in self._table.tags.list().items()}


def exists(place: str | os.PathLike[str], name: str = DOCUMENTS) -> bool:
    """Whether there is a table with this name at a place."""
    return _opened(place, name) is not None


def drop(place: str | os.PathLike[str], name: str) -> None:
    """Remove a table, or what was made of it, if there is one."""
    if is_remote(place) or Path(place).is_dir():
        _connection(place).drop_table(name, ignore_missing=True)


def _connection(place):
    return engine().connect(os.fspath(place))


def _opened(place, name):
    """The newest version of a table of the engine; None if there is none, or none that was completed."""
    if not is_remote(place) and not Path(place).is_dir():
        return None
    with _readable_errors(place):
        try:
            return _connection(place).open_table(name)
        except ValueError as error:
            if "was not found" in str(error):
                return None
            raise


@contextlib.contextmanager
def _readable_errors(place):
    """Errors of the engine in one sentence."""
    try:
        yield
    except Exception as error:  # some are of no other class
        # Without where in the engine it was raised, and without all columns, since most are not of the user.
        message = re.split(r", rust/|, /| Valid fields are", " ".join(str(error).split()))[0][:300]
        if _OF_CONDITION.search(message):
            sentence = f"expected a condition on metadata, such as year >= 2020 and language = 'en': {message}"
        else:
            sentence = f"expected an index at {printable(place)} that can be read; files of it are damaged or missing: {message}"
        raise ValueError(sentence) from None
