"""Writing documents into an index: only new and changed ones are embedded, and all of a call are committed at once.

While a call runs, finished rows are in a table of their own, `unfinished`. A call that was interrupted finds them there when it is
repeated, and the documents of the index are the old ones until the last step.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.documents import DOCUMENT_HASH, HASHES, ID, ID_HASH, VECTOR_HASH, Batch, batches, types_of
from keras_bert_rebuild.search.settings import IndexSettings
from keras_bert_rebuild.search.table import DOCUMENTS, UNFINISHED, Table, drop, exists

# Documents per batch of an index without vectors.
_WORDS = 8192

# A function that yields, for every block of texts, their vectors; it may read blocks ahead.
Encoder: TypeAlias = Callable[[Iterable[list[str]]], Iterable[Iterable[Any]]]


class Changes(NamedTuple):
    """What a call changed in an index."""

    added: int = 0
    """Number of documents with new ids."""

    updated: int = 0
    """Number of documents that were replaced."""

    unchanged: int = 0
    """Number of documents that were there already."""


class Present:
    """The hashes of the rows of a table, in memory: 24 bytes each.

    Args:
        table: the table; None for no rows.
    """

    def __init__(self, table: Table | None) -> None:
        columns = [np.zeros(0, "uint64") if table is None else table.column(name) for name in HASHES]
        order = np.argsort(columns[0])
        self._hashes = {name: values[order] for name, values in zip(HASHES, columns, strict=True)}

    def matches(self, batch: Batch, name: str) -> npt.NDArray[np.bool_]:
        """Which documents of a batch are here with the same id and the same hash of this name."""
        ids, wanted = self._hashes[ID_HASH], batch.hashes[ID_HASH]
        if not len(ids):
            return np.zeros(len(batch), bool)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        return (ids[at] == wanted) & (self._hashes[name][at] == batch.hashes[name])


def write_documents(
    place: Any,
    settings: IndexSettings,
    encoder: Encoder | None,
    documents: Iterable[Document],
    update: bool,
    overwrite: bool,
    progress: Callable[[int], object] | None = None,
) -> Changes:
    """Write documents into an index, which is created if there is none.

    Args:
        place: a folder, or an address of object storage.
        settings: the settings of the index.
        encoder: what computes vectors; None for an index without.
        documents: the documents.
        update: whether documents replace other ones with the same ids.
        overwrite: whether they replace all documents.
        progress: called with the number of documents finished since its last call.

    Raises:
        ValueError: an id occurs twice, metadata are invalid, or without `update` another document of the index has the same id.
    """
    table = Table(place) if exists(place) and not overwrite else None
    types = {} if table is None else settings.metadata_types(table.schema)
    reserved = [] if settings.storage is None else [*settings.storage.columns]
    unfinished = _Unfinished(place, settings)
    present, counts, held, wanted = Present(table), np.zeros(3, "int64"), None, [np.zeros(0, "uint64")]
    read: deque[Any] = deque()  # batches with new documents

    def blocks():
        """The texts of every batch with new documents."""
        nonlocal counts, types
        for batch in batches(documents, _WORDS if settings.storage is None else settings.storage.BLOCK, settings.identity):
            present_ids, same = present.matches(batch, ID_HASH), present.matches(batch, DOCUMENT_HASH)
            differ = np.flatnonzero(present_ids & ~same)
            if len(differ) and not update:
                raise ValueError(
                    f"expected documents with new ids; {len(differ):,} in the index differ, such as "
                    f"{printable(batch.documents[int(differ[0])].id)!r}: update them (index.update, or --add)."
                )
            counts += len(batch) - present_ids.sum(), len(differ), same.sum()
            finished = np.isin(batch.hashes[DOCUMENT_HASH], unfinished.hashes) & ~same
            wanted.append(batch.hashes[DOCUMENT_HASH][finished])
            types = types_of(batch.where(~same), types, reserved)
            new = batch.where(~same & ~finished)
            if len(new):
                texts = _Texts(new, present.matches(new, VECTOR_HASH))
                read.append((new, types, texts, len(batch)))
                yield texts.distinct
            elif progress is not None:
                progress(len(batch))

    for vectors in (() for _ in blocks()) if encoder is None else encoder(blocks()):
        new, types_then, texts, count = read.popleft()
        if held is not None:
            unfinished.add(held, types_then)
            wanted.append(held.column(DOCUMENT_HASH).to_numpy())
        held = _rows(table, settings, vectors, new, types_then, texts)
        if progress is not None:
            progress(count)
    added, updated, unchanged = map(int, counts)
    if added + updated:
        schema = settings.schema(types)
        rows = _fitted(unfinished.rows(np.concatenate(wanted), held), schema)
        if overwrite and exists(place):
            table = Table.create(place, DOCUMENTS, schema, settings.language, rows)
        else:
            table = Table.create(place, DOCUMENTS, schema, settings.language) if table is None else table
            _add_columns(table, types)
            (table.replace if updated else table.add)(rows)
    if table is not None:  # what an interrupted call left to do, too
        table.index_words(settings.language)
        table.tidy()
    drop(place, UNFINISHED)
    return Changes(added, updated, unchanged)


class _Unfinished:
    """The rows of an interrupted call; those of an index with other settings are removed."""

    def __init__(self, place, settings):
        self._place, self._settings = place, settings
        self._table = Table(place, UNFINISHED) if exists(place, UNFINISHED) else None
        if self._table is not None and IndexSettings.from_schema(self._table.schema, place) != settings:
            self._table = drop(place, UNFINISHED)
        self.hashes = np.zeros(0, "uint64") if self._table is None else self._table.column(DOCUMENT_HASH)

    def add(self, rows, types):
        if self._table is None:
            self._table = Table.create(self._place, UNFINISHED, self._settings.schema(types), self._settings.language)
        _add_columns(self._table, types)
        self._table.add(_fitted([rows], self._settings.schema(types)))

    def rows(self, wanted, held):
        """Yield the finished rows with these hashes of documents, and those that are in memory."""
        if self._table is not None:
            newest = Table(self._place, UNFINISHED)
            for batch in newest.batches(newest.schema.names):
                yield batch.filter(pa.array(np.isin(batch.column(DOCUMENT_HASH).to_numpy(), wanted)))
        if held is not None:
            yield held


class _Texts:
    """The texts of a batch whose vectors are to be computed.

    Args:
        batch: the batch.
        have_vectors: which of its documents have a vector in the index already, bool `(documents,)`.
    """

    def __init__(self, batch, have_vectors):
        self.have_vectors, new = have_vectors, batch.where(~have_vectors)
        _, first, of_text = np.unique(new.hashes[VECTOR_HASH], return_index=True, return_inverse=True)
        texts = np.sort(first)  # equal texts are embedded once
        self.distinct = [new.documents[i].full_text for i in texts]
        self.vector_of = np.searchsorted(texts, first)[of_text]


def _rows(table, settings, vectors, batch, types, texts):
    """The rows of documents, with vectors of the index where it has those of the same text."""
    columns = batch.columns(types)
    if settings.storage is not None:
        names, has_vectors = [*settings.storage.columns], texts.have_vectors
        encoded, order = [], np.flatnonzero(~has_vectors)
        if len(order):
            encoded.append(pa.table(settings.storage.encode(list(vectors))).take(pa.array(texts.vector_of)))
        if has_vectors.any():
            old = table.with_ids([document.id for document in batch.where(has_vectors).documents], [ID, *names])
            at = {document.id: i for i, document in enumerate(batch.documents)}
            order = np.concatenate([order, [at[name] for name in old.column(ID).to_pylist()]])
            encoded.append(old.select(names))
        schema = pa.schema([*settings.storage.columns.items()])
        vectors = pa.concat_tables([each.select(names).cast(schema) for each in encoded]).take(pa.array(np.argsort(order)))
        columns |= {name: vectors.column(name).combine_chunks() for name in names}
    schema = settings.schema(types)
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)


def _add_columns(table, types):
    fields = [pa.field(name, kind) for name, kind in types.items() if name not in table.schema.names]
    if fields:
        table.add_columns(fields)


def _fitted(rows, schema):
    """Yield rows with all columns of a schema, in its order; those that are missing have no values."""
    for batch in rows:
        columns = {name: batch.column(name) for name in batch.schema.names}
        missing = {field.name: pa.nulls(len(batch), field.type) for field in schema if field.name not in columns}
        yield pa.record_batch([(columns | missing)[name] for name in schema.names], schema=schema)
