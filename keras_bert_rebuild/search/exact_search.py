"""Exact search over the blocks of an index, for several queries at once, and search in several stages.

In stages one model finds candidates and another scores them, or the rankings of several models are fused.
"""

import itertools

import numpy as np

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.search.dense_storage import rounding

# Candidates that are found in addition to those that may be needed, so that ties are rarely searched for again.
_SPARE = 16


def search_blocks(blocks, storage, queries, top_k, ranks, rescore, engine=None):
    """The best documents for queries.

    The last bits of matrix products depend on the shapes of the matrices, but equal documents must have equal scores in all blocks.
    So candidates are scored again, exactly: all whose score differs from the last that is needed by no more than rounding does. If
    there may be more of them than were retained, as among thousands of equal documents, the blocks are searched for them again.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of their vectors.
        queries: vectors from `storage.queries`.
        top_k: maximum number of documents per query.
        ranks: a tie-breaking rank of every document, `(documents,)`; higher ones come first.
        rescore: number of candidates from compressed vectors to score exactly, as a multiple of `top_k`.
        engine: what `faiss_candidates` returns; None to search the blocks.

    Returns:
        A list with a pair of arrays for every query: the indices of its documents and their scores, best first.
    """
    needed = max(top_k * rescore, top_k + _SPARE) if storage.rescored > 1 else top_k
    retained = min(needed if storage.EXACT else needed + _SPARE, len(ranks))
    if engine is None:
        score, best, norm = storage.score, Best(len(queries), retained, ranks), 0.0
        for block in blocks():
            best.add(score(block, queries), block.first)
            norm = max(norm, block.norm)
        ranked = best.found()
        if storage.EXACT:
            return ranked
        margins = storage.margins(queries, norm)
    else:
        find, norm = engine
        ranked, score = find(queries, retained), lambda block, queries: queries @ storage.decode(block).T
        margins = rounding(storage.width) * np.linalg.norm(queries, axis=1) * norm
    if margins is None:  # equal documents have equal scores, so the candidates are those of the highest ranks
        return search_rows(blocks, storage, queries, [rows for rows, _ in ranked], top_k, ranks)
    last = [scores[needed - 1] if len(scores) > needed else -np.inf for _, scores in ranked]
    limits = np.subtract(last, margins).astype("float32")
    candidates = [rows[scores >= limit] for (rows, scores), limit in zip(ranked, limits, strict=True)]
    result = search_rows(blocks, storage, queries, candidates, top_k, ranks)
    more = [i for i, rows in enumerate(candidates) if len(rows) == retained < len(ranks)]
    if more:
        best = Best(len(more), top_k, ranks)
        some = storage.queries([queries[i] for i in more])
        for block in blocks():
            owners, rows = np.nonzero(score(block, some) >= limits[more, None])
            _add_exact(best, storage, block, some, owners, rows)
        for i, pair in zip(more, best.found(), strict=True):
            result[i] = pair
    return result


def search_rows(blocks, storage, queries, candidates, top_k, ranks):
    """The best documents for queries among candidates.

    Args:
        blocks, storage, queries, top_k, ranks: as for `search_blocks`.
        candidates: for every query an array with the indices of documents.

    Returns:
        As `search_blocks`.
    """
    best = Best(len(queries), top_k, ranks)
    owners = np.repeat(np.arange(len(queries)), [len(rows) for rows in candidates])
    flat = np.concatenate([np.asarray(rows, "int64") for rows in candidates])
    # In the order of the files, and within a block by query.
    for block in blocks():
        inside = np.flatnonzero((flat >= block.first) & (flat < block.first + block.documents))
        if len(inside):
            _add_exact(best, storage, block, queries, owners[inside], flat[inside] - block.first)
    return best.found()


def _add_exact(best, storage, block, queries, owners, rows):
    """Score rows of a block for the queries of these indices and add them to the best."""
    scores = np.empty(len(rows), "float32")
    for query in np.unique(owners):
        of_query = np.flatnonzero(owners == query)
        scores[of_query] = storage.rescore(block, queries[query], rows[of_query])
    scored = scores > -np.inf
    best.add_rows(owners[scored], rows[scored] + block.first, scores[scored])


class Best:
    """Collects the best rows for each query. Among equal scores, rows with a higher rank come first.

    Args:
        queries: number of queries.
        top_k: maximum number of rows per query.
        ranks: a tie-breaking rank of every row, an array `(rows,)`.

    The result does not depend on how rows are divided into blocks.
    """

    def __init__(self, queries, top_k, ranks):
        self._queries, self._top_k, self._ranks = queries, top_k, ranks
        self._owners = np.zeros(0, "int64")
        self._rows = np.zeros(0, "int64")
        self._scores = np.zeros(0, "float32")
        self._least = np.full(queries, -np.inf, "float32")
        self._full = np.zeros(queries, bool)

    def add(self, scores, first):
        """Add the scores of consecutive rows.

        Args:
            scores: float32, `(queries, n)`; negative infinity for rows that do not match.
            first: the index of the first of these rows.
        """
        least, count = self._least.copy(), scores.shape[1]
        if count > self._top_k and not self._full.all():
            # No row below the k-th of these rows can be among the best of all.
            waiting = np.flatnonzero(~self._full)
            kth = np.partition(scores[waiting], count - self._top_k, axis=1)[:, count - self._top_k]
            least[waiting] = np.maximum(least[waiting], kth)
        owners, columns = np.nonzero((scores >= least[:, None]) & (scores > -np.inf))
        if len(owners):
            self.add_rows(owners, columns + first, scores[owners, columns])

    def add_rows(self, owners, rows, scores):
        """Add single rows: arrays `(n,)` of the indices of their queries, their own indices, and their scores."""
        owners = np.concatenate([self._owners, owners])
        rows = np.concatenate([self._rows, rows])
        scores = np.concatenate([self._scores, scores])
        order = np.lexsort((-self._ranks[rows].astype("int64"), -scores, owners))
        sorted_owners = owners[order]
        index = np.arange(len(order)) - np.searchsorted(sorted_owners, np.arange(self._queries))[sorted_owners]
        kept = order[index < self._top_k]
        self._owners, self._rows, self._scores = owners[kept], rows[kept], scores[kept]
        counts = np.bincount(self._owners, minlength=self._queries)
        self._full = counts == self._top_k
        self._least[self._full] = self._scores[np.cumsum(counts)[self._full] - 1]

    def found(self):
        """A list with a pair of arrays for every query: the best rows and their scores, best first."""
        ends = np.searchsorted(self._owners, np.arange(1, self._queries))
        return list(zip(np.split(self._rows, ends), np.split(self._scores, ends), strict=True))


# The constant of reciprocal rank fusion: without it, the first documents of one index would outweigh all others.
RANK_OFFSET = 60


def rows_found_by(index, other, queries, depth, rescore, engine):
    """The documents that another index finds, by their indices in this one.

    Args:
        index: the index whose indices are returned.
        other: the index that finds them.
        queries: texts.
        depth: maximum number of documents per query.
        rescore, engine: see `Index.search`; the engine is for dense vectors.

    Returns:
        For every query an array of indices, best first.

    Raises:
        ValueError: this index lacks one of the documents.
    """
    engine = engine if other.vectors == "dense" else "numpy"
    ranked = other.search_vectors(other.retriever.queries(queries), depth, rescore=rescore, engine=engine)
    rows = []
    for numbers, _ in ranked:
        names = [other.documents.id(number) for number in numbers.tolist()]
        own = [index.documents.row(name) for name in names]
        if None in own:
            raise ValueError(
                f"expected another index of the same documents; {printable(index.path)} has no "
                f"{printable(names[own.index(None)])!r} of {printable(other.path)}."
            )
        rows.append(np.array(own, "int64"))
    return rows


def reranked(index, queries, rows, reranker, top_k):
    """The best of the found documents by the scores of a reranker.

    Args:
        index: the index.
        queries: texts.
        rows: for every query the indices of the documents that were found.
        reranker: a `Scorer`; it scores the pairs of all queries in one call, so that its batches are full, and equal pairs once, so
            that their scores are equal.
        top_k: maximum number of documents per query.

    Returns:
        For every query the indices of its documents and their scores, best first.
    """
    pairs = [(query, index.documents[row].full_text) for query, part in zip(queries, rows, strict=True) for row in part.tolist()]
    distinct = dict(zip(dict.fromkeys(pairs), itertools.count(), strict=False))
    scores = np.asarray(reranker.scores_of([*distinct]) if pairs else [], "float32")
    scores = scores[np.array([distinct[pair] for pair in pairs], "int64")]
    result = []
    for of_query, own in zip(rows, np.split(scores, np.cumsum([len(of_query) for of_query in rows])[:-1]), strict=True):
        order = np.lexsort((-index.documents.ranks[of_query].astype("int64"), -own))[:top_k]
        result.append((of_query[order], own[order]))
    return result


def fused(index, rankings, top_k):
    """Reciprocal rank fusion: the best documents of several rankings by the sum of 1 / (60 + rank).

    Scores of different models cannot be added, since their scales differ; ranks can.

    Args:
        index: the index whose indices the rankings contain.
        rankings: for every model a list with an array of indices for every query, best first.
        top_k: maximum number of documents per query.

    Returns:
        For every query the indices of its documents and their sums, best first.

    Reference: Cormack, Clarke and Büttcher, 2009, section 2 (https://doi.org/10.1145/1571941.1572114).
    """
    result = []
    for of_query in zip(*rankings, strict=True):
        gains = np.concatenate([1 / (RANK_OFFSET + np.arange(1, len(ranking) + 1)) for ranking in of_query])
        rows, indexes = np.unique(np.concatenate(of_query), return_inverse=True)
        scores = np.bincount(indexes, gains, len(rows)).astype("float32")
        order = np.lexsort((-index.documents.ranks[rows].astype("int64"), -scores))[:top_k]
        result.append((rows[order], scores[order]))
    return result
