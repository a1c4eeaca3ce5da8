"""An index: documents with their vectors and metadata, that can be changed, and searched exactly, approximately or by words."""

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from keras_bert_rebuild.data.retrieval import documents_in
from keras_bert_rebuild.files.kinds import INDEX
from keras_bert_rebuild.files.output import claimed_run
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.dense_vectors import VECTOR
from keras_bert_rebuild.search.index_state import Hit, IndexState, fused, reranked
from keras_bert_rebuild.search.retrievers import Retriever, Scorer, check_numbers, checked_queries, document_encoder, load_retriever
from keras_bert_rebuild.search.settings import IndexSettings, language_of
from keras_bert_rebuild.search.table import Table, exists, is_remote
from keras_bert_rebuild.search.writing import Changes, Encoder, write_documents

BM25 = "bm25"
Progress: TypeAlias = Callable[[int], object] | None
_QUERIES = 256  # queries whose scores are in memory at once: with blocks of 8,192 documents, 8 MB
_SAMPLE = 100  # documents by which the language is chosen, or whose vectors measure the recall of approximate search


class Index(IndexState):
    """Documents with vectors, in a folder or in object storage. `Index.open` opens one; the first `add` makes it.

    Search is exact: every document is scored, a block at a time, and up to 512 MB of vectors stay in memory for the next search. A
    reader sees the index as it was when it was opened, whatever is written meanwhile; `refresh` shows the newest state. While one
    process writes, another one that wants to is refused.

    Example:

        index = Index.open("index", "sentence-transformers/all-MiniLM-L6-v2")
        index.add([{"id": 1, "text": "Kafka wrote it.", "year": 1925}])
        index.search(["who wrote it?"], top_k=3, filter="year >= 1900")
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        table: Table | None,
        settings: IndexSettings,
        retriever: Any,
        overwrite: bool = False,
    ) -> None:
        super().__init__(place, table, settings)
        self._retriever, self._overwrites = retriever, overwrite

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        model: Retriever | str | os.PathLike[str] | None = None,
        *,
        snapshot: str | None = None,
        dtype: str | None = None,
        rescoring: str | None = None,
        language: str | None = None,
        model_path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> "Index":
        """Open an index as it is now, or prepare a new one.

        Args:
            place: a folder; or an address of object storage, such as s3://bucket/index, which machines share.
            model: the model that computes vectors, or its path or name. None for that of the index, or, if it is new, for an index
                of words alone, which BM25 searches.
            snapshot: the name of an earlier state, from `snapshot`; None for the newest.
            dtype: dtype of the stored vectors of a new index. Dense: "float32" (default), "float16", "int8" with a scale for each
                vector, or "binary", signs. Sparse: "float32" or "float16". Tokens: "float16" (default), "int8" or "float32".
            rescoring: dtype of a second copy of int8 or binary vectors of a new index, to rescore candidates: "none", "float16",
                "float32", or for binary ones "int8". None is "int8" for binary, and "none" for others.
            language: language of the texts of a new index, for the stems and stop words of BM25. "none" for texts of several
                languages, or of one without spaces between words, such as Chinese: words as they are. None is English, or "none" if
                most letters of the first documents are not those of English.
            model_path: where the model is, if `model` is an object, so that the index finds it later.
            overwrite: prepare a new index in place of the one that is there, which the first `add` or `update` replaces.

        Raises:
            ValueError: the place is not an index, has no such snapshot, or was made with another model or other settings.
        """
        name = model if isinstance(model, (str, os.PathLike)) else model_path
        retriever = load_retriever(model) if isinstance(model, (str, os.PathLike)) else model
        name = None if name is None else str(Path(name).resolve()) if Path(name).exists() else str(name)
        if overwrite or not exists(place):
            if snapshot is not None:
                raise ValueError(f"expected the snapshot {printable(snapshot)!r}; there is no index at {printable(place)}.")
            return cls(place, None, IndexSettings.for_model(retriever, dtype, rescoring, language, name), retriever, overwrite)
        table = Table(place, snapshot=snapshot)
        settings = IndexSettings.from_schema(table.schema, place)
        wanted = IndexSettings(None, dtype, rescoring, language or "")
        if retriever is not None:
            wanted = IndexSettings.for_model(retriever, dtype or settings.dtype, rescoring or settings.rescoring, language, name)
        settings.check_same(wanted, place)
        return cls(place, table, settings, retriever)

    def refresh(self) -> None:
        """See the newest state, unless this one is to be overwritten; vectors of an unchanged one stay in memory."""
        newest = Table(self.place) if exists(self.place) and not self._overwrites else None
        if newest is None or self._table is None or newest.version != self._table.version:
            self._show(newest)

    @property
    def retriever(self) -> Any:
        """The model that computes the vectors; it is loaded on first use.

        Raises:
            ValueError: the index has no vectors, or does not know where its model is.
        """
        if self._retriever is None:
            self._shown()
            if self.settings.model is None:
                what = "does not say where its model is: open it with its model"
                if self._storage is None:
                    what = "has no vectors, only words: search it with by='bm25' or --bm25"
                raise ValueError(f"the index at {printable(self.place)} {what}.")
            retriever = load_retriever(self.settings.model)
            self.settings.check_same(IndexSettings.for_model(retriever, None, None, None, None), self.place)
            self._retriever = retriever
        return self._retriever

    def add(
        self, documents: Any, *, batch_tokens: int | None = None, progress: Progress = None, encoder: Encoder | None = None
    ) -> Changes:
        """Add documents with new ids; those that are in the index already are not embedded again.

        Args:
            documents: dictionaries with `id`, a word or an integer, `text`, optionally `title`, and other metadata; or what
                else `documents_in` reads: a file or folder, a DataFrame, a `datasets.Dataset`, an Arrow table.
            batch_tokens: as for `document_encoder`.
            progress: called with the number of documents finished since its last call.
            encoder: what computes the vectors, such as copies of the model on other machines; None for the model here.

        Returns:
            What changed. All of it is there at once; after a kill there is nothing of it, and a repeated call goes on.

        Raises:
            ValueError: documents are invalid, an id occurs twice, or another document of the index has the same id.
        """
        return self._write(documents, False, batch_tokens, progress, encoder)

    def update(
        self, documents: Any, *, batch_tokens: int | None = None, progress: Progress = None, encoder: Encoder | None = None
    ) -> Changes:
        """Add documents, in place of those with the same ids; arguments, result and errors as for `add`."""
        return self._write(documents, True, batch_tokens, progress, encoder)

    def _write(self, documents, update, batch_tokens, progress, encoder):
        with self._writing():
            self.refresh()
            if self._storage is not None and encoder is None:
                encoder = functools.partial(map, document_encoder(self.retriever, batch_tokens))
            documents = iter(documents_in(documents))
            if not self.settings.language and (first := list(itertools.islice(documents, _SAMPLE))):
                self.settings = replace(self.settings, language=language_of(first))
                documents = itertools.chain(first, documents)
            changes = write_documents(self.place, self.settings, encoder, documents, update, self._overwrites, progress)
        self._overwrites &= not (changes.added or changes.updated)
        self.refresh()
        return changes

    def delete(self, ids: Iterable[Any]) -> int:
        """Delete documents and return how many there were; ids that are not in the index are ignored."""
        ids = [ids] if isinstance(ids, (str, int)) else [*ids]
        if self._table is None or not ids:
            return 0
        with self._writing():
            deleted = Table(self.place).delete(ids)
        self.refresh()
        return deleted

    def snapshot(self, name: str) -> None:
        """Keep this state under a name, with which `Index.open` opens it.

        Raises:
            ValueError: the name is taken, or there are no documents.
        """
        table = self._shown()
        if name in table.tags:
            raise ValueError(f"expected a new name of a snapshot; {printable(self.place)} has {printable(name)!r} already.")
        table.tag(name)

    @property
    def snapshots(self) -> list[str]:
        """The names of the states that are kept."""
        return sorted(self._shown().tags)

    def index_vectors(self, top_k: int = 10) -> float:
        """Index dense float vectors by the engine, for `search` with `approximate`; documents that are added later join it.

        Args:
            top_k: number of documents by which the recall is measured.

        Returns:
            The recall: the mean part of the exact `top_k` documents that approximate search finds, for the vectors of a hundred
            documents as queries.
        """
        self._check_approximate()
        with self._writing():
            Table(self.place).index_vectors(VECTOR)
        self.refresh()
        rows = self._shown().column("_rowid")
        sample = np.sort(rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE])
        vectors = self._storage.decode(self._take(sample).arrays)
        rankings = zip(self.search_vectors(vectors, top_k), self.search_vectors(vectors, top_k, approximate=True), strict=True)
        # A document that is as good as the last of the exact ones is one of them.
        good = [np.sum(near.scores >= exact.scores[-1]) / len(exact.scores) for exact, near in rankings]
        return float(np.mean(good))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        if is_remote(self.place):  # the storage refuses the second of two commits
            yield
            return
        with claimed_run(self.place, INDEX):
            yield

    def search(
        self,
        queries: Sequence[str],
        top_k: int = 10,
        *,
        filter: str | None = None,
        by: str = "vectors",
        fuse: "Sequence[Index | str]" = (),
        rerank: Scorer | None = None,
        candidates: "Index | str | None" = None,
        depth: int = 100,
        rescore: int | None = None,
        approximate: bool = False,
        progress: Progress = None,
    ) -> list[list[Hit]]:
        """Find the best documents for queries.

        Args:
            queries: texts.
            top_k: maximum number of documents per query; sparse vectors and BM25 only find documents that share a word.
            filter: a condition on metadata in SQL, such as "year >= 2020 and language = 'en'"; None for all documents.
            by: "vectors", or "bm25" for the words of the query.
            fuse: "bm25" or further indexes of the same documents, such as a sparse one: the best `depth` of each are ranked by
                reciprocal rank fusion, with the sum of 1 / (60 + rank) as their score.
            rerank: a model that rescores the best `depth` documents, such as a `Reranker`; its scores are returned.
            candidates: "bm25" or another index of the same documents: only its best `depth` documents are scored.
            depth: number of documents from `candidates`, from each of `fuse`, and for a reranker to score.
            rescore: number of candidates from int8 or binary vectors, as a multiple of `top_k`, which are rescored with the most
                exact copy of the vectors; None for 4 and 16.
            approximate: let the engine find candidates in its index of vectors, see `index_vectors`; they are scored exactly.
            progress: called with the number of queries finished since its last call.

        Returns:
            For every query its hits, best first. Ties are ranked by descending id, as in trec_eval.

        Raises:
            ValueError: queries is not a list of texts, or an argument is invalid.
        """
        queries = checked_queries(queries)
        check_numbers(top_k=top_k, depth=depth)
        if by not in ("vectors", BM25):
            raise ValueError(f"by must be vectors or {BM25}; got {by!r}.")
        options = {"filter": filter, "rescore": rescore, "approximate": approximate}
        hits: list[list[Hit]] = []
        for first in range(0, len(queries), _QUERIES):
            part = queries[first : first + _QUERIES]
            count = depth if fuse or rerank is not None else top_k
            hits_of_part = self._found(by, part, count, candidates, depth, options)
            if fuse:
                rankings = [hits_of_part, *(self._found(other, part, depth, None, depth, options) for other in fuse)]
                by_query = zip(*([[hit.id for hit in each] for each in ranking] for ranking in rankings), strict=True)
                hits_of_part = [fused(each, top_k if rerank is None else depth) for each in by_query]
            if rerank is not None:
                texts = self.documents([hit.id for each in hits_of_part for hit in each])
                hits_of_part = reranked(part, [[texts[hit.id] for hit in each] for each in hits_of_part], rerank, top_k)
            hits += hits_of_part
            if progress is not None:
                progress(len(part))
        return hits

    def _found(self, by, queries, count, candidates, depth, options):
        """What vectors, BM25 or another index find."""
        if isinstance(by, Index):
            return by.search(queries, count, filter=options["filter"], rescore=options["rescore"])
        if by == BM25:
            return [self.search_words(query, count, options["filter"]) for query in queries]
        if by != "vectors":
            raise ValueError(f"expected {BM25} or an index of the same documents; got {by!r}.")
        ids = None
        if candidates is not None:
            ids = [[hit.id for hit in hits] for hits in self._found(candidates, queries, depth, None, depth, options)]
        rankings = self.search_vectors(self.retriever.queries(queries), count, ids=ids, **options)
        return [list(map(Hit, ranking.ids, ranking.scores.tolist())) for ranking in rankings]
