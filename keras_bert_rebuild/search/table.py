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
from keras_bert_rebuild.search.documents import ID, TEXT
from keras_bert_rebuild.search.exact_search import SPARE

DOCUMENTS, UNFINISHED = "documents", "unfinished"
# How long a reader may use a version after it was replaced, unless a snapshot keeps it.
KEPT = datetime.timedelta(days=1)
# Numbers in one condition of a query.
_AT_ONCE = 1000
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
        self.place = place
        if not exists(place, name):
            raise ValueError(f"expected an index; nothing is at {printable(place)}: add documents first.")
        self._table = _connection(place).open_table(name)
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
        from lancedb.index import FTS

        if rows is None:
            table = _connection(place).create_table(name, schema=schema)
        else:
            table = _connection(place).create_table(name, pa.RecordBatchReader.from_batches(schema, rows), mode="overwrite")
        if name == DOCUMENTS:
            table.create_index(TEXT, config=FTS(language=language))
        return cls(place, name)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns; its metadata are the settings of the index."""
        return self._table.schema

    def __len__(self) -> int:
        return self._table.count_rows()

    def count(self, where: str | None) -> int:
        """The number of rows that fulfil a condition."""
        with _readable_errors():
            return self._table.count_rows(where)

    def batches(self, columns: Sequence[str], where: str | None = None, size: int = 8192) -> Iterator[pa.RecordBatch]:
        """Yield columns, and `_rowid`, of the rows that fulfil a condition, in the order of the table.

        Args:
            columns: their names.
            where: a condition in SQL; None for all rows.
            size: maximum number of rows of a batch.
        """
        query = self._table.search().select([*columns]).with_row_id(True)
        with _readable_errors():
            yield from (query if where is None else query.where(where)).to_batches(batch_size=size)

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers, of all rows in the order of `batches`."""
        parts = [batch.column(name).to_numpy() for batch in self.batches([ID if name == "_rowid" else name])]
        return np.concatenate(parts) if parts else np.zeros(0, "uint64")

    def take(self, rows: npt.NDArray[np.uint64], columns: Sequence[str]) -> pa.Table:
        """Columns, and `_rowid`, of rows by ascending number."""
        return self._table.take_row_ids(rows.tolist()).select([*columns]).with_row_id().to_arrow()

    def with_ids(self, ids: Sequence[Any], columns: Sequence[str]) -> pa.Table:
        """Columns, and `_rowid`, of the rows with these ids, in any order."""
        parts = [ids[first : first + _AT_ONCE] for first in range(0, len(ids), _AT_ONCE)]
        tables = [
            self._table.search().where(_is_one_of(part)).select([*columns]).with_row_id(True).limit(len(part)).to_arrow()
            for part in parts
        ]
        return pa.concat_tables(tables)

    def bm25(self, query: str, count: int, where: str | None) -> list[tuple[Any, int, float]]:
        """The best rows for the words of a query by BM25: `(id, row number, score)`, best first."""
        from lancedb.query import MatchQuery

        search = self._table.search(MatchQuery(query, TEXT)).select([ID, "_score"]).with_row_id(True).limit(count + SPARE)
        with _readable_errors():
            rows = (search if where is None else search.where(where)).to_list()
        ranked = [(row[ID], row["_rowid"], row["_score"]) for row in rows]
        return sorted(ranked, key=lambda each: (each[2], each[0]), reverse=True)[:count]

    def nearest(self, vector: npt.NDArray[np.float32], column: str, count: int, where: str | None) -> list[int]:
        """The numbers of rows whose vectors probably have the largest dot products with a vector."""
        search = self._table.search(vector, vector_column_name=column).distance_type("dot").select([ID, "_distance"])
        with _readable_errors():
            rows = (search if where is None else search.where(where)).with_row_id(True).limit(count).to_list()
        return [row["_rowid"] for row in rows]

    def add(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Append rows, in one commit."""
        self._table.checkout_latest()
        self._table.add(pa.RecordBatchReader.from_batches(self.schema, (batch.select(self.schema.names) for batch in rows)))

    def replace(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Replace the rows of these ids, and append those of new ids, in one commit."""
        self._table.checkout_latest()
        reader = pa.RecordBatchReader.from_batches(self.schema, (batch.select(self.schema.names) for batch in rows))
        self._table.merge_insert(ID).when_matched_update_all().when_not_matched_insert_all().execute(reader)

    def delete(self, ids: Sequence[Any]) -> int:
        """Delete the rows of these ids, in one commit, and return how many there were."""
        self._table.checkout_latest()
        return self._table.delete(_is_one_of(ids)).num_deleted_rows if ids else 0

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns without values."""
        self._table.checkout_latest()
        self._table.add_columns([*fields])

    def tidy(self) -> None:
        """Merge small parts, bring the word index up to date, and remove versions that nobody may read any more."""
        self._table.checkout_latest()
        self._table.optimize(cleanup_older_than=KEPT)

    def index_vectors(self, column: str) -> None:
        """Index vectors for approximate search."""
        from lancedb.index import IvfFlat

        self._table.checkout_latest()
        self._table.create_index(column, config=IvfFlat(distance_type="dot"))

    def has_index(self, column: str) -> bool:
        """Whether a column is indexed."""
        return any(index.columns == [column] for index in self._table.list_indices())

    def tag(self, name: str) -> None:
        """Name this version, and keep it."""
        self._table.tags.create(name, self.version)

    @property
    def tags(self) -> dict[str, int]:
        """The named versions."""
        return {name: tag["version"] for name, tag in self._table.tags.list().items()}


def exists(place: str | os.PathLike[str], name: str = DOCUMENTS) -> bool:
    """Whether there is a table with this name at a place."""
    if not is_remote(place) and not Path(place).is_dir():
        return False
    return name in _connection(place).list_tables().tables


def drop(place: str | os.PathLike[str], name: str) -> None:
    """Remove a table, if there is one."""
    if exists(place, name):
        _connection(place).drop_table(name)


def _connection(place):
    return engine().connect(os.fspath(place))


def _is_one_of(ids):
    quoted = (str(each) if isinstance(each, int) else "'" + each.replace("'", "''") + "'" for each in ids)
    return f"{ID} IN ({', '.join(quoted)})"


@contextlib.contextmanager
def _readable_errors():
    """Errors of the engine about a condition, in one sentence."""
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        message = " ".join(str(error).split())
        message = re.split(r", rust/|, /", message)[0]
        raise ValueError(f"expected a condition on metadata, such as year >= 2020 and language = 'en': {message[:300]}") from None
