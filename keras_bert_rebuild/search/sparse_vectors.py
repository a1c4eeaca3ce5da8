"""Sparse vectors of an index: for every document the ids of some tokens and their weights."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

TOKENS, WEIGHTS = "tokens", "weights"


class SparseVectors:
    """Tokens with weights, scored by the dot product.

    Args:
        width: size of the vocabulary.
        dtype: dtype of the weights, "float32" or "float16".
        rescoring: "none".

    Columns: `tokens`, ascending ids, and `weights`, lists of equal lengths. A document that shares no token with a query is not
    found. Other scores equal those of the dense product.
    """

    DTYPES = ("float32", "float16")
    RESCORING: ClassVar[dict[str, tuple[str, ...]]] = {}
    BLOCK = 8192  # documents per block
    EXACT = True  # sums are in float64, over the tokens of the document in order
    rescored = 1
    searched = rescored_columns = (TOKENS, WEIGHTS)

    def __init__(self, width, dtype, rescoring):
        self.width, self.dtype, self.rescoring = width, dtype, rescoring

    @property
    def columns(self):
        """The types of the columns by name."""
        return {TOKENS: pa.list_(pa.int32()), WEIGHTS: pa.list_(pa.float16() if self.dtype == "float16" else pa.float32())}

    def encode(self, vectors):
        """The columns of documents, from `(ids, weights)` of each.

        Raises:
            ValueError: ids are not ascending ids of the vocabulary, or weights are not finite numbers above 0.
        """
        vectors = self.queries(vectors)
        starts = pa.array(np.cumsum([0, *(len(ids) for ids, _ in vectors)]), pa.int32())
        tokens, weights = (np.concatenate(parts) for parts in zip(*vectors, strict=True))
        values = {TOKENS: tokens.astype("int32"), WEIGHTS: weights.astype(self.dtype)}
        return {name: pa.ListArray.from_arrays(starts, pa.array(numbers)) for name, numbers in values.items()}

    def arrays(self, rows):
        """The columns of some documents as arrays: the tokens and weights of all, and `starts`, the first of each document."""
        tokens, weights = (rows[name].flatten().to_numpy(zero_copy_only=False) for name in (TOKENS, WEIGHTS))
        lengths = rows[TOKENS].value_lengths().to_numpy(zero_copy_only=False)
        return {TOKENS: tokens, WEIGHTS: weights, "starts": np.cumsum([0, *lengths])}

    def queries(self, vectors):
        """The vectors of queries in the form for `score`."""
        return [self._checked(vector) for vector in vectors]

    def score(self, arrays, queries):
        """The scores of all documents of a block: float32, `(queries, n)`; negative infinity if no token is shared."""
        tokens, weights, starts = arrays[TOKENS], arrays[WEIGHTS], arrays["starts"]
        owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        scores = np.full((len(queries), len(starts) - 1), -np.inf, "float32")
        factors = np.zeros(self.width)
        for row, (ids, of_query) in zip(scores, queries, strict=True):
            factors[ids] = of_query
            shared = np.flatnonzero(factors[tokens])
            products = weights[shared].astype("float64") * factors[tokens[shared]]
            sums = np.bincount(owners[shared], products, minlength=len(row))
            with_shared = np.unique(owners[shared])
            row[with_shared] = sums[with_shared]
            factors[ids] = 0
        return scores

    def rescore(self, arrays, query, rows):
        """The scores of some documents of a block for one query: float32, `(rows,)`."""
        return self.score(arrays, [query])[0][rows]

    def decode(self, arrays):
        """The vectors of all documents: a list of pairs of ascending ids, int32, and weights, float32."""
        ends = arrays["starts"][1:-1]
        return list(zip(np.split(arrays[TOKENS], ends), np.split(arrays[WEIGHTS].astype("float32"), ends), strict=True))

    def _checked(self, vector):
        ids, weights = (np.asarray(part) for part in vector)
        fits = ids.ndim == 1 and ids.shape == weights.shape and (np.diff(ids) > 0).all()
        if not fits or (len(ids) and not 0 <= ids[0] <= ids[-1] < self.width):
            raise ValueError(f"expected ascending ids of {self.width:,} tokens, and a weight for each; got {ids!r:.80}.")
        if not ((weights > 0) & (weights < np.inf)).all():
            raise ValueError("expected finite weights above 0 in sparse vectors; the model returned others.")
        return ids.astype("int64", copy=False), weights
