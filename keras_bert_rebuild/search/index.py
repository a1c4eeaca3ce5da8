"""An index: documents and their vectors on disk, with exact search."""

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.build import build_index
from keras_bert_rebuild.search.dense_storage import check_engine, faiss_candidates
from keras_bert_rebuild.search.documents import DocumentStore
from keras_bert_rebuild.search.exact_search import fused, reranked, rows_found_by, search_blocks, search_rows
from keras_bert_rebuild.search.index_files import StaleIndexError, open_files
from keras_bert_rebuild.search.retrievers import Retriever, Scorer, check_numbers, check_same_retriever, checked_queries, described
from keras_bert_rebuild.search.storages import Block, LooseBlock, storage_of

_TRIES = 10  # to open an index that is being replaced
_QUERIES = 256  # queries whose scores are in memory at once: with blocks of 8,192 documents, 8 MB


class Hit(NamedTuple):
    """A document that a search found."""

    id: str
    """The id of the document."""

    score: float
    """Its relevance to the query: higher is better."""


class Index:
    """Documents with vectors on disk, memory-mapped block by block. `Index.build` builds one, `Index.open` opens it.

    Search is exact: every document is scored. Memory does not grow with their number.

    Example:

        index = Index.build("corpus.jsonl", "index", embedder)
        for hit in index.search(["who wrote it?"], top_k=3)[0]:
            print(hit.score, index.document(hit.id).text)
    """

    def __init__(self, path: str | os.PathLike[str], retriever: Retriever | None = None, verify: bool = True) -> None:
        self.path, self._retriever = Path(path), retriever
        for tries_left in reversed(range(_TRIES)):
            try:
                self._open(verify)
                break
            except StaleIndexError:
                if not tries_left:
                    raise

    def _open(self, verify):
        manifest, self._storage, self._files = open_files(self.path, storage_of, verify)
        self.description: dict[str, Any] = manifest["settings"]["retriever"]
        self.vectors: str = self.description["vectors"]
        self.width: int = self.description["width"]
        self.model: str | None = manifest["model"]
        if self._retriever is not None:
            check_same_retriever(described(self._retriever), self.description, self.path)
        self._counts = [record["documents"] for record in manifest["blocks"]]
        self._norms: dict[int, float] = {}
        self.documents = DocumentStore(self._files, sum(self._counts))

    @classmethod
    def open(cls, path: str | os.PathLike[str], retriever: Retriever | None = None, verify: bool = True) -> "Index":
        """Open an index as it is now. If it is replaced later, searches raise a `StaleIndexError`: open it again.

        Args:
            path: the folder.
            retriever: the model that built it, to search with texts; None to search only with vectors.
            verify: whether every file is compared with its SHA-256 when it is first read, as vectors are by the first search, at
                about a gigabyte per second. Numbers and offsets are always checked.

        Raises:
            ValueError: the folder is not an index, is unfinished or damaged, or was built with another model.
        """
        return cls(path, retriever, verify)

    @classmethod
    def build(
        cls,
        corpus: str | os.PathLike[str] | list[Document],
        path: str | os.PathLike[str],
        retriever: Retriever,
        *,
        dtype: str | None = None,
        rescoring: str | None = None,
        limit: int | None = None,
        block: int | None = None,
        batch_tokens: int | None = None,
        model: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        progress: Callable[..., object] | None = None,
    ) -> "Index":
        """Build an index, or resume an interrupted build.

        A call that was interrupted at any moment is resumed when it is repeated, and the resulting folder is identical byte by byte
        to that of an uninterrupted call. Memory does not grow with the number of documents, except for their ids, which are sorted
        once.

        Args:
            corpus: a file that `read_corpus` reads, or a list of documents.
            path: the folder to write.
            retriever: the model that computes the vectors, of title and text together.
            dtype: dtype of the stored vectors. Dense: "float32" (default), "float16", "int8" with a scale for each vector, or
                "binary", signs. Sparse: "float32" or "float16". Tokens: "float16" (default), "int8" or "float32".
            rescoring: dtype of a second copy of int8 or binary vectors, to rescore candidates: "none", "float16", "float32", or for
                binary ones "int8". None is "int8" for binary, and "none" for others.
            limit: maximum number of documents to read; None for all.
            block: documents per block; None for 8,192, or 1,024 for vectors of tokens.
            batch_tokens: as for `document_encoder`; a repeated call may use another value, which changes rounding.
            model: the path of the model, so that a later `keras-bert search` finds it.
            overwrite: replace an index that was built with other settings.
            progress: called as `progress(stage, further_documents, total)`, with stage "reading" and total None, then "indexing".

        Raises:
            ValueError: the corpus or an option is invalid, an id occurs twice, or the folder holds something else.
        """
        build_index(corpus, path, retriever, dtype, rescoring, limit, block, batch_tokens, model, overwrite, progress)
        return cls(path, retriever)

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def dtype(self) -> str:
        """The dtype of the stored vectors."""
        return self._storage.dtype

    @property
    def rescoring(self) -> str:
        """The dtype of their second copy, or "none"."""
        return self._storage.rescoring

    @property
    def retriever(self) -> Retriever:
        """The model that computes the vectors of queries.

        Raises:
            ValueError: the index was opened without one.
        """
        if self._retriever is None:
            raise ValueError(f"a search for texts needs an index opened with its model: Index.open({str(self.path)!r}, retriever).")
        return self._retriever

    def document(self, name: str) -> Document:
        """The document with an id.

        Raises:
            ValueError: there is no such document.
        """
        row = self.documents.row(name)
        if row is None:
            raise ValueError(f"expected the id of a document of {printable(self.path)}; it has no {printable(name)!r}.")
        return self.documents[row]

    def search(
        self,
        queries: Sequence[str],
        top_k: int = 10,
        *,
        rescore: int | None = None,
        candidates: "Index | None" = None,
        fuse: "Sequence[Index]" = (),
        depth: int = 100,
        reranker: Scorer | None = None,
        engine: str = "numpy",
        progress: Callable[[int], object] | None = None,
    ) -> list[list[Hit]]:
        """Find the best documents for queries.

        Args:
            queries: texts.
            top_k: maximum number of documents per query; sparse vectors only find documents that share a token with the query.
            rescore: number of candidates from int8 or binary vectors, as a multiple of `top_k`, which are rescored with the most
                exact copy of the vectors; None for 4 and 16.
            candidates: another index of the same documents, such as a dense one for an index of vectors of tokens: only its best
                `depth` documents are scored.
            fuse: further indexes of the same documents, such as a sparse one: the best `depth` of each index are ranked by
                reciprocal rank fusion, with the sum of 1 / (60 + rank) as their score.
            depth: number of documents from `candidates` and from each of `fuse`, and for a reranker to score.
            reranker: a model that rescores the best `depth` documents, such as a `Reranker`; its scores are returned.
            engine: "numpy", or "faiss" for dense vectors, if it is installed, with all vectors in memory.
            progress: called with the number of queries finished since its last call.

        Returns:
            For every query its hits, best first. Ties are ranked by descending id, as in trec_eval.

        Raises:
            ValueError: queries is not a list of texts, or an argument is invalid.
        """
        queries = checked_queries(queries)
        check_numbers(top_k=top_k, depth=depth)
        hits, vectors = [], iter(self.retriever.queries(queries))
        for first in range(0, len(queries), _QUERIES):
            part = queries[first : first + _QUERIES]
            rows = None if candidates is None else rows_found_by(self, candidates, part, depth, rescore, engine)
            ranked = self.search_vectors(
                itertools.islice(vectors, len(part)),
                depth if fuse or reranker is not None else top_k,
                rescore=rescore,
                rows=rows,
                engine=engine if rows is None else "numpy",
            )
            if fuse:
                rankings = [rows_found_by(self, other, part, depth, rescore, engine) for other in fuse]
                ranked = fused(self, [[rows for rows, _ in ranked], *rankings], top_k if reranker is None else depth)
            if reranker is not None:
                ranked = reranked(self, part, [rows for rows, _ in ranked], reranker, top_k)
            hits += [self._hits(rows, scores) for rows, scores in ranked]
            if progress is not None:
                progress(len(part))
        return hits

    def search_vectors(
        self,
        vectors: Iterable[Any],
        top_k: int = 10,
        *,
        rescore: int | None = None,
        rows: Sequence[npt.NDArray[np.int64]] | None = None,
        engine: str = "numpy",
    ) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Find the best documents for the vectors of queries.

        Args:
            vectors: vectors of the queries, of the kind of the index; their scores for a block are in memory at once.
            top_k, rescore, engine: see `search`.
            rows: for every query the indices of the documents to score; None for all.

        Returns:
            For every query the indices of the documents, from 0 in the order of the corpus, and their scores, best first.
        """
        rescore = self._storage.rescored if rescore is None else rescore
        check_numbers(top_k=top_k, rescore=rescore)
        queries = self._storage.queries(list(vectors))
        top_k = min(top_k, len(self))
        if rows is not None:
            return search_rows(self._blocks, self._storage, queries, rows, top_k, self.documents.ranks)
        check_engine(engine, self.vectors, self.path)
        finder = None if engine == "numpy" else self._faiss
        return search_blocks(self._blocks, self._storage, queries, top_k, self.documents.ranks, rescore, finder)

    def scores(self, vectors: Iterable[Any], rows: Sequence[npt.ArrayLike]) -> list[npt.NDArray[np.float32]]:
        """The scores of chosen documents.

        Args:
            vectors: vectors of the queries.
            rows: for every query the indices of its documents, each once.

        Returns:
            For every query an array of scores, in the order of its documents; -inf without a common token and for empty documents.
        """
        wanted = [np.asarray(each, "int64") for each in rows]
        results = self.search_vectors(vectors, max(1, *(len(each) for each in wanted)), rows=wanted)
        result = []
        for each, (numbers, scores) in zip(wanted, results, strict=True):
            by_row = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
            result.append(np.array([by_row.get(row, -np.inf) for row in each.tolist()], "float32"))
        return result

    def score_of_vectors(self, query: Any, document: Any) -> float:
        """The score that a document with this vector would have for the vector of a query if it were in the index."""
        block = LooseBlock(self._storage.encode([document]), 1)
        return float(self._storage.rescore(block, self._storage.queries([query])[0], np.zeros(1, "int64"))[0])

    def stored(self) -> Iterator[tuple[list[Document], Any]]:
        """Yield all documents and their vectors, a block at a time, for example to load them into another engine.

        Vectors are an array `(documents, width)`, or a list for sparse vectors and vectors of tokens: see `Retriever`.
        """
        for block in self._blocks():
            yield list(self.documents.span(block.first, block.first + block.documents)), self._storage.decode(block)

    def _hits(self, rows, scores):
        return [Hit(self.documents.id(row), score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]

    @functools.cached_property
    def _faiss(self):
        return faiss_candidates(self._blocks, self._storage, self.width)

    def _blocks(self) -> Iterator[Block]:
        first = 0
        for number, count in enumerate(self._counts):
            block = Block(self._files, number, first, count, self._storage.arrays(count))
            if number not in self._norms:
                self._norms[number] = self._storage.check(block)
            block.norm = self._norms[number]
            yield block
            first += count
