"""The best documents of every query, found block by block."""

import numpy as np


class Best:
    """Collects the best rows of each query. Among equal scores those with the higher rank come first.

    Args:
        queries: number of queries.
        top_k: rows of each query, at most.
        ranks: the rank of every row among equal ones, an array `(rows,)`.

    What it collects does not depend on how rows are divided into blocks.
    """

    def __init__(self, queries, top_k, ranks):
        self._queries, self._top_k, self._ranks = queries, top_k, ranks
        self._owners = np.zeros(0, "int64")
        self._rows = np.zeros(0, "int64")
        self._scores = np.zeros(0, "float32")
        self._least = np.full(queries, -np.inf, "float32")
        self._full = np.zeros(queries, bool)

    def add(self, scores, first):
        """Take the scores of consecutive rows into account.

        Args:
            scores: float32, `(queries, n)`; negative infinity for a row that is not found.
            first: the number of the first of these rows.
        """
        least, count = self._least.copy(), scores.shape[1]
        if count > self._top_k and not self._full.all():
            # No row below the k-th of these rows alone is among the best of all.
            waiting = np.flatnonzero(~self._full)
            kth = np.partition(scores[waiting], count - self._top_k, axis=1)[:, count - self._top_k]
            least[waiting] = np.maximum(least[waiting], kth)
        owners, columns = np.nonzero((scores >= least[:, None]) & (scores > -np.inf))
        if len(owners):
            self.add_rows(owners, columns + first, scores[owners, columns])

    def add_rows(self, owners, rows, scores):
        """Take single rows into account: the numbers of their queries, their own, and their scores, arrays `(n,)`."""
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
        """For every query its rows and their scores, best first: a list of pairs of arrays."""
        ends = np.searchsorted(self._owners, np.arange(1, self._queries))
        return list(zip(np.split(self._rows, ends), np.split(self._scores, ends), strict=True))
