"""Dense vectors of an index: one vector of fixed width per document, scored by the dot product, or their signs.

Signs are compared by Hamming distance.
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from keras_bert_rebuild.data.max_sim import stored_vectors
from keras_bert_rebuild.files.limits import all_finite

FLOATS = ("float32", "float16")
VECTOR, SCALE, NORM = "vector", "scale", "norm"
# The second copy, and its scales.
EXACT_VECTOR, EXACT_SCALE = "exact_vector", "exact_scale"

_ARROW = {"float32": pa.float32(), "float16": pa.float16(), "int8": pa.int8(), "binary": pa.uint8()}


def norms(vectors):
    """The norms of vectors `(n, width)`, computed in float64: float32, `(n,)`."""
    return np.linalg.norm(vectors.astype("float64"), axis=1).astype("float32")


def rounding(terms):
    """A bound on the difference of two sums in float32 of that many products in any order, relative to the norms of the vectors.

    Reference: Higham, "Accuracy and stability of numerical algorithms", 2002, section 3.1.
    """
    return 2 * (terms + 8) * 2.0**-24


class DenseVectors:
    """One vector per document.

    Args:
        width: width of a vector.
        dtype: "float32", "float16", "int8" (with a scale for each vector) or "binary" (signs).
        rescoring: dtype of a second copy of the vectors, to rescore candidates found in those of `dtype`; "none" for no copy.

    Columns: `vector`, `(width,)`, with `scale` for int8, or for binary the bits of its signs; `norm` unless binary; and for the
    second copy `exact_vector` and `exact_scale`.
    """

    DTYPES = (*FLOATS, "int8", "binary")
    RESCORING: ClassVar[dict[str, tuple[str, ...]]] = {"int8": ("none", *FLOATS), "binary": ("int8", "none", *FLOATS)}
    BLOCK = 8192  # documents per block: 12 MB of 384 numbers each
    EXACT = False  # the last bits of matrix products depend on the shapes of the matrices

    def __init__(self, width, dtype, rescoring):
        self.width, self.dtype, self.rescoring = width, dtype, rescoring
        self.searched = (VECTOR, *((SCALE,) if dtype == "int8" else ()), *(() if dtype == "binary" else (NORM,)))
        """The columns that a search reads."""
        first, second = (VECTOR, SCALE), (EXACT_VECTOR, EXACT_SCALE)
        (self._vectors, self._scales), self._exact = (first, dtype) if rescoring == "none" else (second, rescoring)
        self.rescored_columns = (self._vectors, *((self._scales,) if self._exact == "int8" else ()))
        """The columns with the most exact copy."""

    @property
    def columns(self):
        """The types of the columns by name."""
        columns = self._columns(VECTOR, SCALE, self.dtype) | ({} if self.dtype == "binary" else {NORM: pa.float32()})
        return columns if self.rescoring == "none" else columns | self._columns(EXACT_VECTOR, EXACT_SCALE, self.rescoring)

    @property
    def rescored(self):
        """The number of candidates that a search in these vectors must find, as a multiple of the requested documents.

        With MiniLM's vectors of 122,880 documents, 40 candidates from binary vectors contain 69 % of the best ten, 160 contain 89 %
        and 640 contain 98 %; ten candidates from int8 vectors, with the spare ones, contain all.
        """
        return {"int8": 4, "binary": 16}.get(self.dtype, 1)

    def encode(self, vectors):
        """The columns of documents, from their vectors.

        Raises:
            ValueError: a vector has another width, or contains NaN or infinity.
        """
        vectors = self.queries(vectors)
        columns = self._encoded(vectors, VECTOR, SCALE, self.dtype)
        if self.dtype != "binary":
            columns[NORM] = pa.array(norms(vectors))
        return columns if self.rescoring == "none" else columns | self._encoded(vectors, EXACT_VECTOR, EXACT_SCALE, self.rescoring)

    def arrays(self, rows):
        """The columns of some documents as arrays by name."""
        return {name: _matrix(column) if name in (VECTOR, EXACT_VECTOR) else column.to_numpy() for name, column in rows.items()}

    def margins(self, queries, norm):
        """How much scores of equal vectors may differ, `(queries,)`; None for signs, whose distances are exact.

        Args:
            queries: vectors from `queries`.
            norm: the norm of the longest vector of the documents.
        """
        # Twice, since the norms of int8 vectors are those before rounding.
        return None if self.dtype == "binary" else 2 * rounding(self.width) * norms(queries) * norm

    def queries(self, vectors):
        """The vectors of queries in the form for `score` and `rescore`: float32, `(queries, width)`."""
        stacked = np.stack(vectors).astype("float32", copy=False)
        if stacked.shape[1:] != (self.width,):
            raise ValueError(f"expected vectors of width {self.width}; got the shape {stacked.shape[1:]}.")
        if not all_finite(stacked):
            raise ValueError("expected vectors of finite numbers; the model returned NaN or infinity.")
        return stacked

    def score(self, arrays, queries):
        """The scores of all documents of a block: float32, `(queries, n)`; for binary vectors minus the Hamming distance."""
        if self.dtype == "binary":
            bits = _words(arrays[VECTOR])
            return np.stack([-hamming(bits, query).astype("float32") for query in _words(to_bits(queries))])
        scores = queries @ arrays[VECTOR].astype("float32", copy=False).T
        return scores * arrays[SCALE] if self.dtype == "int8" else scores

    def rescore(self, arrays, query, rows):
        """The scores of some documents of a block for one query, computed in float64 and rounded to float32: `(rows,)`."""
        return (self._exact_vectors(arrays, rows).astype("float64") * query).sum(1).astype("float32")

    def decode(self, arrays):
        """The vectors of all documents, from the most exact copy: float32, `(n, width)`."""
        return self._exact_vectors(arrays, slice(None))

    def _exact_vectors(self, arrays, rows):
        numbers = arrays[self._vectors][rows]
        if self._exact == "binary":
            return from_bits(numbers, self.width)
        numbers = numbers.astype("float32")
        return numbers * arrays[self._scales][rows][:, None] if self._exact == "int8" else numbers

    def _columns(self, vectors, scales, dtype):
        width = -(-self.width // 8) if dtype == "binary" else self.width
        return {vectors: pa.list_(_ARROW[dtype], width)} | ({scales: pa.float32()} if dtype == "int8" else {})

    def _encoded(self, vectors, name, scales, dtype):
        stored, factors = (to_bits(vectors), None) if dtype == "binary" else stored_vectors(vectors, dtype)
        columns = {name: pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(stored).reshape(-1)), stored.shape[1])}
        return columns if factors is None else columns | {scales: pa.array(factors)}


def _matrix(column):
    """The numbers of a column of vectors, `(n, width)`."""
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)


def to_bits(vectors):
    """The signs of vectors as bits, 1 for numbers above 0: uint8, `(n, bytes)`, from `(n, width)`."""
    return np.packbits(vectors > 0, axis=1, bitorder="little")


def from_bits(bits, width):
    """Vectors of length 1 with the given signs: float32 `(n, width)` from `to_bits`."""
    signs = np.unpackbits(bits, axis=1, count=width, bitorder="little")
    return (signs.astype("float32") * 2 - 1) / np.float32(width**0.5)


def _words(bits):
    """Bits as 64-bit words, padded with 0: `(n, words)`."""
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view("<u8")


def hamming(bits, query):
    """The Hamming distance of every vector from a query: uint32, `(n,)`.

    Args:
        bits: uint64, `(n, words)`.
        query: uint64, `(words,)`.
    """
    return count_bits(np.bitwise_xor(bits, query)).sum(1, dtype="uint32")


def _count_by_table(words):
    """`np.bitwise_count` for NumPy before version 2, by looking up the bit count of each 16-bit part."""
    table = np.unpackbits(np.arange(1 << 16, dtype="uint16").view("uint8").reshape(-1, 2), axis=1).sum(1, dtype="uint8")
    return table[np.ascontiguousarray(words).view("uint16")].reshape(*words.shape, 4).sum(-1, dtype="uint8")


count_bits = getattr(np, "bitwise_count", _count_by_table)
