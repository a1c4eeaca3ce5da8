"""Vectors of tokens of an index: several per document, scored by MaxSim ("late interaction")."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from keras_bert_rebuild.data.max_sim import max_sim, stored_vectors
from keras_bert_rebuild.files.limits import all_finite
from keras_bert_rebuild.search.dense_vectors import NORM, norms, rounding

VECTORS, SCALES = "token_vectors", "token_scales"
_ARROW = {"float16": pa.float16(), "int8": pa.int8(), "float32": pa.float32()}


class TokenVectors:
    """One vector per token of each document.

        score(query, document) = Σ_tokens of the query  max_tokens of the document  dot product

    Args:
        width: width of a vector.
        dtype: "float16", "int8" (with a scale for each vector) or "float32".
        rescoring: "none".

    Columns: `token_vectors`, a list of vectors, for int8 also `token_scales`, and `norm`, that of the longest. A document without
    tokens is not found.

    Reference: Khattab and Zaharia, 2020, section 3.3 (https://arxiv.org/abs/2004.12832).
    """

    DTYPES = ("float16", "int8", "float32")
    RESCORING: ClassVar[dict[str, tuple[str, ...]]] = {}
    BLOCK = 1024  # documents per block: 16 MB of 60 vectors of 128 float16 numbers each
    EXACT = False  # the last bits of matrix products depend on the shapes of the matrices
    rescored = 1

    def __init__(self, width, dtype, rescoring):
        self.width, self.dtype, self.rescoring = width, dtype, rescoring
        self.rescored_columns = (VECTORS, SCALES) if dtype == "int8" else (VECTORS,)
        self.searched = (*self.rescored_columns, NORM)

    @property
    def columns(self):
        """The types of the columns by name."""
        columns = {VECTORS: pa.list_(pa.list_(_ARROW[self.dtype], self.width)), NORM: pa.float32()}
        return columns | ({SCALES: pa.list_(pa.float32())} if self.dtype == "int8" else {})

    def encode(self, vectors):
        """The columns of documents, from the vectors `(tokens, width)` of each.

        Raises:
            ValueError: vectors have another width, or contain NaN or infinity.
        """
        vectors = self.queries(vectors)
        starts = pa.array(np.cumsum([0, *map(len, vectors)]), pa.int32())
        stored, scales = stored_vectors(np.concatenate(vectors), self.dtype)
        rows = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(stored).reshape(-1)), self.width)
        longest = pa.array([float(norms(each).max(initial=0)) for each in vectors], pa.float32())
        columns = {VECTORS: pa.ListArray.from_arrays(starts, rows), NORM: longest}
        return columns if scales is None else columns | {SCALES: pa.ListArray.from_arrays(starts, pa.array(scales))}

    def arrays(self, rows):
        """The columns of some documents as arrays: the vectors of all, and `starts`, the first of each document."""
        numbers = rows[VECTORS].flatten().flatten().to_numpy(zero_copy_only=False).reshape(-1, self.width)
        starts = np.cumsum([0, *rows[VECTORS].value_lengths().to_numpy(zero_copy_only=False)])
        arrays = {VECTORS: numbers, "starts": starts}
        arrays |= {SCALES: rows[SCALES].flatten().to_numpy(zero_copy_only=False)} if SCALES in rows else {}
        return arrays | ({NORM: rows[NORM].to_numpy()} if NORM in rows else {})

    def margins(self, queries, norm):
        """How much scores of equal documents may differ, `(queries,)`: see `DenseVectors.margins`."""
        return np.array([2 * rounding(self.width + len(query)) * norms(query).sum() * norm for query in queries])

    def queries(self, vectors):
        """The vectors of queries in the form for `score`: float32, each `(tokens, width)`."""
        vectors = [np.asarray(each, "float32") for each in vectors]
        wrong = next((each for each in vectors if each.ndim != 2 or each.shape[1] != self.width), None)
        if wrong is not None:
            raise ValueError(f"expected a vector of width {self.width} for every token; got an array of shape {wrong.shape}.")
        if not all(all_finite(each) for each in vectors):
            raise ValueError("expected vectors of finite numbers; the model returned NaN or infinity.")
        return vectors

    def score(self, arrays, queries):
        """The scores of all documents of a block: float32, `(queries, n)`."""
        # Decoded once for all queries.
        vectors = arrays[VECTORS].astype("float32", copy=False)
        return np.stack([max_sim(query, vectors, arrays["starts"], arrays.get(SCALES)) for query in queries])

    def rescore(self, arrays, query, rows):
        """The scores of some documents of a block for one query, computed in float64 and rounded to float32: `(rows,)`."""
        return max_sim(query, arrays[VECTORS], arrays["starts"], arrays.get(SCALES), rows, dtype="float64")

    def decode(self, arrays):
        """The vectors of all documents: a list of arrays, float32, `(tokens, width)`."""
        vectors, scales = arrays[VECTORS].astype("float32"), arrays.get(SCALES)
        return np.split(vectors if scales is None else vectors * scales[:, None], arrays["starts"][1:-1])
