"""Exact search: every document is scored, for several queries at once, a block of documents at a time."""

import copy

import numpy as np
import pyarrow as pa

from keras_bert_rebuild.search.documents import ID

# Candidates that are found in addition to those that may be needed, so that ties are rarely searched for again.
SPARE = 16


class Block:
    """Some documents of an index, as a search reads them.

    Args:
        rows: a record batch or table with the columns id, `_rowid` and those of the storage.
        storage: the storage of the vectors.
    """

    def __init__(self, rows, storage):
        columns = {name: _one_array(rows.column(name)) for name in rows.schema.names}
        self.ids, self.rows = columns.pop(ID), columns.pop("_rowid").to_numpy()
        self.arrays, self._storage, self._searched = storage.arrays(columns), storage, None

    def among(self, rows):
        """The block, of which only documents with these row numbers are found."""
        block = copy.copy(self)
        block._searched = np.isin(self.rows, rows)
        return block

    def scores(self, queries):
        """The scores of all documents: float32, `(queries, n)`, negative infinity for those that are not found."""
        scores = self._storage.score(self.arrays, queries)
        return scores if self._searched is None else np.where(self._searched, scores, np.float32(-np.inf))

    def names(self, indexes):
        """The ids of the documents at these indexes, as an array of objects."""
        names = np.empty(len(indexes), object)
        names[:] = self.ids.take(pa.array(indexes)).to_pylist()
        return names


def _one_array(column):
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def search_blocks(blocks, take, storage, queries, top_k, rescore):
    """The best documents for queries.

    The last bits of matrix products depend on the shapes of the matrices, but equal documents must have equal scores in all blocks.
    So candidates are scored again, exactly: all whose score differs from the last that is needed by no more than rounding does. If
    there may be more of them than were retained, as among thousands of equal documents, the blocks are searched for them again.

    Args:
        blocks: a function that yields the `Block`s to search.
        take: a function of row numbers that returns a `Block` of these rows with the most exact vectors.
        storage: the storage of the vectors.
        queries: vectors from `storage.queries`.
        top_k: maximum number of documents per query.
        rescore: number of candidates from compressed vectors to score exactly, as a multiple of `top_k`.

    Returns:
        A `Ranking` for every query.
    """
    needed = max(top_k * rescore, top_k + SPARE) if storage.rescored > 1 else top_k
    retained = needed if storage.EXACT else needed + SPARE
    best, norm = Best(len(queries), retained), 0.0
    for block in blocks():
        best.add(block.scores(queries), block)
        norm = max(norm, float(block.arrays["norm"].max(initial=0)) if "norm" in block.arrays else 0.0)
    rankings = best.rankings()
    if storage.EXACT:
        return rankings
    margins = storage.margins(queries, norm)
    if margins is None:  # equal documents have equal scores, so the candidates are those of the highest ids
        return search_rows(take, storage, queries, [ranking.rows for ranking in rankings], top_k)
    last = [ranking.scores[needed - 1] if len(ranking.rows) > needed else -np.inf for ranking in rankings]
    limits = np.subtract(last, margins).astype("float32")
    candidates = [ranking.rows[ranking.scores >= limit] for ranking, limit in zip(rankings, limits, strict=True)]
    more = [i for i, rows in enumerate(candidates) if len(rows) == retained]
    if more:
        some = storage.queries([queries[i] for i in more])
        parts = [[] for _ in more]
        for block in blocks():
            owners, columns = np.nonzero(block.scores(some) >= limits[more, None])
            for number in np.unique(owners):
                parts[number].append(block.rows[columns[owners == number]])
        for i, rows in zip(more, parts, strict=True):
            candidates[i] = np.concatenate(rows)
    return search_rows(take, storage, queries, candidates, top_k)


def search_rows(take, storage, queries, candidates, top_k):
    """The best documents for queries among candidates.

    Args:
        take, storage, queries, top_k: as for `search_blocks`.
        candidates: for every query an array with the row numbers of documents.

    Returns:
        A `Ranking` for every query.
    """
    best = Best(len(queries), top_k)
    flat = np.unique(np.concatenate([np.asarray(rows, "uint64") for rows in candidates]))
    for first in range(0, len(flat), storage.BLOCK):
        part = flat[first : first + storage.BLOCK]
        block = take(part)
        for number, rows in enumerate(candidates):
            own = np.flatnonzero(np.isin(block.rows, rows))
            if len(own):
                scores = storage.rescore(block.arrays, queries[number], own)
                kept = scores > -np.inf
                best.add_rows(np.full(kept.sum(), number), block, own[kept], scores[kept])
    return best.rankings()


class Ranking:
    """The documents that a query found, best first.

    Args:
        rows: their row numbers, uint64 `(n,)`.
        ids: their ids.
        scores: their scores, float32.
    """

    def __init__(self, rows, ids, scores):
        self.rows, self.ids, self.scores = rows, ids, scores


class Best:
    """Collects the best rows for each query. Among equal scores, the last id comes first, as in trec_eval.

    Args:
        queries: number of queries.
        top_k: maximum number of rows per query.

    The result does not depend on how rows are divided into blocks.
    """

    def __init__(self, queries, top_k):
        self._queries, self._top_k = queries, top_k
        self._owners, self._rows = np.zeros(0, "int64"), np.zeros(0, "uint64")
        self._ids, self._scores = np.zeros(0, object), np.zeros(0, "float32")
        self._least = np.full(queries, -np.inf, "float32")

    def add(self, scores, block):
        """Add the scores of all rows of a block.

        Args:
            scores: float32, `(queries, n)`; negative infinity for rows that do not match.
            block: the `Block`.
        """
        least, count = self._least.copy(), scores.shape[1]
        waiting = np.flatnonzero(least == -np.inf)
        if count > self._top_k and len(waiting):
            # No row below the k-th of these rows can be among the best of all.
            kth = np.partition(scores[waiting], count - self._top_k, axis=1)[:, count - self._top_k]
            least[waiting] = np.maximum(least[waiting], kth)
        owners, columns = np.nonzero((scores >= least[:, None]) & (scores > -np.inf))
        if len(owners):
            self.add_rows(owners, block, columns, scores[owners, columns])

    def add_rows(self, owners, block, indexes, scores):
        """Add single rows of a block: arrays `(n,)` of the indices of their queries, their own in the block, and their scores."""
        owners = np.concatenate([self._owners, owners])
        rows = np.concatenate([self._rows, block.rows[indexes]])
        ids = np.concatenate([self._ids, block.names(indexes)])
        scores = np.concatenate([self._scores, scores])
        order = np.lexsort((ids, scores, -owners))[::-1]
        by_owner = owners[order]
        place = np.arange(len(order)) - np.searchsorted(by_owner, np.arange(self._queries))[by_owner]
        kept = order[place < self._top_k]
        self._owners, self._rows, self._ids, self._scores = owners[kept], rows[kept], ids[kept], scores[kept]
        counts = np.bincount(self._owners, minlength=self._queries)
        full = counts == self._top_k
        self._least[full] = self._scores[np.cumsum(counts)[full] - 1]

    def rankings(self):
        """A `Ranking` for every query."""
        ends = np.searchsorted(self._owners, np.arange(1, self._queries))
        parts = (np.split(values, ends) for values in (self._rows, self._ids, self._scores))
        return [Ranking(*each) for each in zip(*parts, strict=True)]
