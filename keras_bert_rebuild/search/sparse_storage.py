"""Sparse vectors of an index, stored as an inverted index."""

from typing import ClassVar

import numpy as np

from keras_bert_rebuild.files.limits import all_finite


class SparseStorage:
    """An inverted index of a block: for every token the documents that contain it, and its weights in them.

    Args:
        width: size of the vocabulary.
        dtype: dtype of the weights, "float32" or "float16".
        rescoring: "none".

    Files of a block: `starts`, int64 `(width + 1,)`: the documents of token t are `documents[starts[t] : starts[t + 1]]`,
    uint16, and its `weights` have the same indexes.

    A document that shares no token with a query is not found. Other scores equal those of the dense product.
    """

    DTYPES = ("float32", "float16")
    RESCORING: ClassVar[dict[str, tuple[str, ...]]] = {}
    BLOCK = 8192  # documents per block
    EXACT = True  # sums are in float64, over the tokens of the query in order
    rescored = 1

    def __init__(self, width, dtype, rescoring):
        self.width, self.dtype, self.rescoring = width, dtype, rescoring

    def arrays(self, documents):
        """Dtypes and shapes by name of the arrays of a block with this number of documents; None for sizes that vary."""
        return {"starts": ("int64", (self.width + 1,)), "documents": ("uint16", (None,)), "weights": (self.dtype, (None,))}

    def encode(self, vectors):
        """The arrays of a block, from `(ids, weights)` of its documents.

        Raises:
            ValueError: ids are not ascending ids of the vocabulary, or weights are not finite numbers above 0.
        """
        vectors = [self._checked(vector) for vector in vectors]
        tokens = np.concatenate([ids for ids, _ in vectors])
        documents = np.repeat(np.arange(len(vectors), dtype="uint16"), [len(ids) for ids, _ in vectors])
        weights = np.concatenate([weights for _, weights in vectors]).astype(self.dtype)
        order = np.argsort(tokens, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(tokens, minlength=self.width))])
        return {"starts": starts.astype("int64"), "documents": documents[order], "weights": weights[order]}

    def check(self, block):
        """0.0, since scores are exact.

        Raises:
            ValueError: the arrays are not an inverted index of the documents of a block, or a weight is NaN or infinite.
        """
        starts, documents = block["starts"], block["documents"]
        ascends = starts[0] == 0 and starts[-1] == len(documents) == len(block["weights"]) and (np.diff(starts) >= 0).all()
        block.check(ascends and (not len(documents) or documents.max() < block.documents), "an inverted index of the documents")
        block.check(all_finite(block["weights"]), "finite numbers")
        return 0.0

    def queries(self, vectors):
        """The vectors of queries in the form for `score`."""
        return [self._checked(vector) for vector in vectors]

    def score(self, block, queries):
        """The scores of all documents of a block: float32, `(queries, n)`; negative infinity if no token is shared."""
        starts, documents, weights = block["starts"], block["documents"], block["weights"]
        scores = np.full((len(queries), block.documents), -np.inf, "float32")
        for row, (ids, factors) in zip(scores, queries, strict=True):
            begins, ends = starts[ids], starts[ids + 1]
            spans = [slice(*span) for span in zip(begins.tolist(), ends.tolist(), strict=True)]
            if not (ends > begins).any():
                continue
            rows = np.concatenate([documents[span] for span in spans])
            products = np.concatenate([weights[span] for span in spans]) * np.repeat(factors.astype("float64"), ends - begins)
            sums = np.bincount(rows, products, minlength=block.documents)
            shared = np.bincount(rows, minlength=block.documents) > 0
            row[shared] = sums[shared]
        return scores

    def rescore(self, block, query, rows):
        """The scores of some documents of a block for one query: float32, `(rows,)`."""
        return self.score(block, [query])[0][rows]

    def decode(self, block):
        """The vectors of all documents of a block: a list of pairs of ascending ids, int32, and weights, float32."""
        order = np.argsort(block["documents"], kind="stable")
        tokens = np.repeat(np.arange(self.width, dtype="int32"), np.diff(block["starts"]))[order]
        weights = block["weights"].astype("float32")[order]
        ends = np.cumsum(np.bincount(block["documents"], minlength=block.documents))[:-1]
        return list(zip(np.split(tokens, ends), np.split(weights, ends), strict=True))

    def _checked(self, vector):
        ids, weights = (np.asarray(part) for part in vector)
        fits = ids.ndim == 1 and ids.shape == weights.shape and (np.diff(ids) > 0).all()
        if not fits or (len(ids) and not 0 <= ids[0] <= ids[-1] < self.width):
            raise ValueError(f"expected ascending ids of {self.width:,} tokens, and a weight for each; got {ids!r:.80}.")
        if not ((weights > 0) & (weights < np.inf)).all():
            raise ValueError("expected finite weights above 0 in sparse vectors; the model returned others.")
        return ids.astype("int64", copy=False), weights
