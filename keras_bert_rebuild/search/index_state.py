"""One state of an index: its documents, search for vectors or words among them, and how rankings are combined."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.dense_vectors import FLOATS, VECTOR
from keras_bert_rebuild.search.documents import ID, TEXT, TITLE, documents_of
from keras_bert_rebuild.search.exact_search import Block, Ranking, search_blocks, search_rows
from keras_bert_rebuild.search.retrievers import Scorer, check_numbers
from keras_bert_rebuild.search.settings import IndexSettings
from keras_bert_rebuild.search.table import Table

_KEPT = 512 << 20  # bytes of vectors that stay in memory between searches, if all of them fit


# The constant of reciprocal rank fusion: without it, the first documents of one ranking would outweigh all others.
RANK_OFFSET = 60


class Hit(NamedTuple):
    """A document that a search found."""

    id: str | int
    """The id of the document."""

    score: float
    """Its relevance to the query: higher is better."""


class IndexState:
    """The documents of an index, and their vectors, as they were when it was opened.

    Args:
        place: a folder, or an address of object storage.
        table: the table; None for an index without documents.
        settings: the settings of the index.
    """

    def __init__(self, place: str | os.PathLike[str], table: Table | None, settings: IndexSettings) -> None:
        self.place, self.settings, self._storage = place, settings, settings.storage
        self._show(table)

    def _show(self, table):
        if table is not None:  # another writer may have made it since
            stored = IndexSettings.from_schema(table.schema, self.place)
            stored.check_same(self.settings, self.place)
            self.settings, self._storage = stored, stored.storage
        self._table, self._blocks_in_memory = table, None

    def __len__(self) -> int:
        return 0 if self._table is None else len(self._table)

    def document(self, name: Any) -> Document:
        """The document with an id.

        Raises:
            ValueError: there is no such document.
        """
        documents = self.documents([name])
        if name not in documents:
            raise ValueError(f"expected the id of a document of {printable(self.place)}; it has no {printable(name)!r}.")
        return documents[name]

    def documents(self, ids: Sequence[Any]) -> dict[Any, Document]:
        """The documents with some ids, by id; those that are not in the index are left out."""
        columns = [*self.settings.metadata_types(self._shown().schema), TITLE, TEXT]
        distinct = [*dict.fromkeys(ids)]
        rows = self._shown().with_ids(distinct, columns).drop_columns(["_rowid"]) if distinct else None
        return {} if rows is None else {document.id: document for document in documents_of(rows)}

    def documents_at(self, rows: npt.NDArray[np.uint64]) -> list[Document]:
        """The documents at distinct row numbers, such as `search_vectors` returns, in their order."""
        columns = [*self.settings.metadata_types(self._shown().schema), TITLE, TEXT]
        return documents_of(self._shown().take(rows, columns).drop_columns(["_rowid"]))

    def __iter__(self) -> Iterator[Document]:
        columns = [*self.settings.metadata_types(self._shown().schema), TITLE, TEXT]
        for batch in self._shown().batches(columns):
            yield from documents_of(batch.drop_columns(["_rowid"]))

    def _rows(self, ids):
        """For every query the row numbers of documents that this index has."""
        names = [*dict.fromkeys(itertools.chain.from_iterable(ids))]
        rows = self._shown().with_ids(names, [ID]) if names else None
        numbers = {} if rows is None else dict(zip(rows[ID].to_pylist(), rows["_rowid"].to_pylist(), strict=True))
        missing = next((name for name in names if name not in numbers), None)
        if missing is not None:
            raise ValueError(
                f"expected candidates among the documents of {printable(self.place)}; it has no {printable(missing)!r}."
            )
        return [np.array([numbers[name] for name in each], "uint64") for each in ids]

    def search_vectors(
        self,
        vectors: Iterable[Any],
        top_k: int = 10,
        *,
        filter: str | None = None,
        rescore: int | None = None,
        ids: Sequence[Sequence[Any]] | None = None,
        approximate: bool = False,
    ) -> list[Ranking]:
        """Find the best documents for the vectors of queries.

        Args:
            vectors: vectors of the queries, of the kind of the index; their scores for a block are in memory at once.
            top_k, filter, rescore, approximate: see `search`.
            ids: for every query the ids of the documents to score; None for all.

        Returns:
            For every query its documents, best first: their row numbers, ids and scores.
        """
        storage = self._storage
        if storage is None:
            raise ValueError(
                f"the index at {printable(self.place)} has no vectors, only words: search it with by='bm25' or --bm25."
            )
        rescore = storage.rescored if rescore is None else rescore
        check_numbers(top_k=top_k, rescore=rescore)
        queries = storage.queries(list(vectors))
        rows = None if ids is None else self._rows(ids)
        if approximate and rows is None:
            self._check_approximate()
            if not self._shown().has_index(VECTOR):
                raise ValueError("approximate search needs index.index_vectors(), or keras-bert index --approximate.")
            near = self._shown().nearest
            rows = [np.array(near(query, VECTOR, top_k * rescore, filter), "uint64") for query in queries]
        if rows is not None:
            return search_rows(self._take, storage, queries, rows, top_k)
        return search_blocks(lambda: self._blocks(filter), self._take, storage, queries, top_k, rescore)

    def search_words(self, query: str, top_k: int, filter: str | None = None) -> list[Hit]:
        """Find the best documents for the words of a query by BM25; arguments as for `search_vectors`."""
        return [Hit(name, score) for name, _, score in self._shown().bm25(query, top_k, filter)]

    def _check_approximate(self):
        if self._storage is None or getattr(self._storage, "dtype", None) not in FLOATS or self._storage.searched[0] != VECTOR:
            raise ValueError("approximate search is for dense vectors in float32 or float16.")

    def _shown(self) -> Table:
        if self._table is None:
            what, then = "nothing", "add documents first"
            if Path(self.place, "search.json").is_file():
                what, then = "one of version 0.2", "index its documents into another folder"
            raise ValueError(f"expected an index; {what} is at {printable(self.place)}: {then}.")
        return self._table

    def _take(self, rows):
        return Block(self._shown().take(rows, [ID, *self._storage.rescored_columns]), self._storage)

    def _blocks(self, where):
        if self._blocks_in_memory is not None:
            if where is None:
                yield from self._blocks_in_memory
                return
            rows = [batch.column("_rowid").to_numpy() for batch in self._shown().batches([ID], where)]
            fulfilling = np.concatenate([np.zeros(0, "uint64"), *rows])
            yield from (block.among(fulfilling) for block in self._blocks_in_memory)
            return
        kept, size = [], 0
        for batch in self._shown().batches([ID, *self._storage.searched], where, self._storage.BLOCK):
            if len(batch):
                block = Block(batch, self._storage)
                size += batch.nbytes
                kept = [*kept, block] if size <= _KEPT else []
                yield block
        if where is None and size <= _KEPT:
            self._blocks_in_memory = kept

    def stored(self) -> Iterator[tuple[list[Document], Any]]:
        """Yield all documents and their vectors, a block at a time, for example to load them into another engine.

        Vectors are an array `(documents, width)`, or a list for sparse vectors and vectors of tokens: see `Retriever`.
        """
        columns = [*self.settings.metadata_types(self._shown().schema), TITLE, TEXT]
        vectors = [*self._storage.rescored_columns]
        for batch in self._shown().batches([*columns, *vectors], None, self._storage.BLOCK):
            arrays = self._storage.arrays({name: batch.column(name) for name in vectors})
            yield documents_of(batch.select(columns)), self._storage.decode(arrays)


def fused(rankings: Sequence[Sequence[Any]], top_k: int) -> list[Hit]:
    """Reciprocal rank fusion: the best documents of several rankings by the sum of 1 / (60 + rank).

    Scores of different models cannot be added, since their scales differ; ranks can.

    Args:
        rankings: ids of documents, each best first.
        top_k: maximum number of documents.

    Returns:
        Documents and their sums, best first; of equal ones the last id is first.

    Reference: Cormack, Clarke and Büttcher, 2009, section 2 (https://doi.org/10.1145/1571941.1572114).
    """
    sums: dict[Any, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, 1):
            sums[name] = sums.get(name, 0.0) + 1 / (RANK_OFFSET + rank)
    return best_hits(sums, top_k)


def best_hits(scores: dict[Any, float], top_k: int) -> list[Hit]:
    """The best of some documents, of equal ones the last id first.

    Args:
        scores: their scores by id.
        top_k: maximum number of documents.
    """
    ranked = sorted(scores.items(), key=lambda each: (np.float32(each[1]), each[0]), reverse=True)
    return [Hit(name, float(np.float32(score))) for name, score in ranked[:top_k]]


def reranked(queries: Sequence[str], documents: Sequence[Sequence[Document]], reranker: Scorer, top_k: int) -> list[list[Hit]]:
    """The best of the found documents by the scores of a reranker.

    Args:
        queries: texts.
        documents: for every query the documents that were found.
        reranker: a `Scorer`; it scores the pairs of all queries in one call, so that its batches are full, and equal pairs once, so
            that their scores are equal.
        top_k: maximum number of documents per query.
    """
    pairs = [(query, document.full_text) for query, part in zip(queries, documents, strict=True) for document in part]
    distinct = dict(zip(dict.fromkeys(pairs), itertools.count(), strict=False))
    scores = np.asarray(reranker.scores_of([*distinct]) if pairs else [], "float32")
    of_pairs = iter([float(scores[distinct[pair]]) for pair in pairs])
    return [best_hits({document.id: next(of_pairs) for document in part}, top_k) for part in documents]
