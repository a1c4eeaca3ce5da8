"""The best documents for every query, found block by block."""

import numpy as np


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
