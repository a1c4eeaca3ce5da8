"""Vectors of tokens: several per document, scored by MaxSim ("late interaction")."""

from typing import ClassVar

import numpy as np

from keras_bert_rebuild.data.max_sim import max_sim, stored_vectors
from keras_bert_rebuild.files.limits import all_finite
from keras_bert_rebuild.search.dense_storage import longest, rounding


class TokenStorage:
    """One vector per token of each document.

        score(query, document) = Σ_tokens of the query  max_tokens of the document  dot product

    Args:
        width: width of a vector.
        dtype: "float16", "int8" (with a scale for each vector) or "float32".
        rescoring: "none".

    Files of a block: `starts`, int64 `(n + 1,)`: the vectors of document d are `vectors[starts[d] : starts[d + 1]]`; for int8 also
    `scales`, float32, one per vector. A document without tokens is not found.

    Reference: Khattab and Zaharia, 2020, section 3.3 (https://arxiv.org/abs/2004.12832).
    """

    DTYPES = ("float16", "int8", "float32")
    RESCORING: ClassVar[dict[str, tuple[str, ...]]] = {}
    BLOCK = 1024  # documents per block: 16 MB of 60 vectors of 128 float16 numbers each
    EXACT = False  # the last bits of matrix products depend on the shapes of the matrices
    rescored = 1

    def __init__(self, width, dtype, rescoring):
        self.width, self.dtype, self.rescoring = width, dtype, rescoring

    def arrays(self, documents):
        """Dtypes and shapes by name of the arrays of a block with this number of documents; None for sizes that vary."""
        arrays = {"starts": ("int64", (documents + 1,)), "vectors": (self.dtype, (None, self.width))}
        return arrays | ({"scales": ("float32", (None,))} if self.dtype == "int8" else {})

    def encode(self, vectors):
        """The arrays of a block, from the vectors `(tokens, width)` of its documents.

        Raises:
            ValueError: vectors have another width.
        """
        vectors = self.queries(vectors)
        starts = np.concatenate([[0], np.cumsum([len(each) for each in vectors])]).astype("int64")
        stored, scales = stored_vectors(np.concatenate(vectors), self.dtype)
        return {"starts": starts, "vectors": stored} | ({} if scales is None else {"scales": scales})

    def check(self, block):
        """The norm of the longest vector of a block.

        Raises:
            ValueError: the arrays do not assign its vectors to its documents, or a number is NaN or infinite.
        """
        starts, count = block["starts"], len(block["vectors"])
        ascends = starts[0] == 0 and starts[-1] == count and (np.diff(starts) >= 0).all()
        block.check(ascends and (self.dtype != "int8" or len(block["scales"]) == count), "ascending starts of documents")
        norm = longest(block["vectors"], self._scales(block))
        block.check(norm < np.inf, "finite numbers")
        return norm

    def margins(self, queries, norm):
        """How much scores of equal documents may differ, `(queries,)`: see `DenseStorage.margins`."""
        norms = [np.linalg.norm(query.astype("float64"), axis=1).sum() for query in queries]
        return np.array([rounding(self.width + len(query)) * each * norm for query, each in zip(queries, norms, strict=True)])

    def queries(self, vectors):
        """The vectors of queries in the form for `score`: float32, each `(tokens, width)`."""
        vectors = [np.asarray(each, "float32") for each in vectors]
        wrong = next((each for each in vectors if each.ndim != 2 or each.shape[1] != self.width), None)
        if wrong is not None:
            raise ValueError(f"expected a vector of width {self.width} for every token; got an array of shape {wrong.shape}.")
        if not all(all_finite(each) for each in vectors):
            raise ValueError("expected vectors of finite numbers; the model returned NaN or infinity.")
        return vectors

    def score(self, block, queries):
        """The scores of all documents of a block: float32, `(queries, n)`."""
        # Decoded once for all queries.
        vectors = block["vectors"].astype("float32", copy=False)
        return np.stack([max_sim(query, vectors, block["starts"], self._scales(block)) for query in queries])

    def rescore(self, block, query, rows):
        """The scores of some documents of a block for one query, computed in float64 and rounded to float32: `(rows,)`."""
        return max_sim(query, block["vectors"], block["starts"], self._scales(block), rows, dtype="float64")

    def decode(self, block):
        """The vectors of all documents of a block: a list of arrays, float32, `(tokens, width)`."""
        vectors, scales = block["vectors"].astype("float32"), self._scales(block)
        return np.split(vectors if scales is None else vectors * scales[:, None], block["starts"][1:-1])

    def _scales(self, block):
        return block["scales"] if self.dtype == "int8" else None
