"""Dense vectors of an index: one vector of fixed width per document, scored by the dot product; their signs; and faiss.

Binary vectors are the signs of numbers as bits, compared by Hamming distance. faiss can find the candidates of a search.
"""

from typing import ClassVar

import numpy as np

from keras_bert_rebuild.data.max_sim import stored_vectors
from keras_bert_rebuild.files.limits import all_finite
from keras_bert_rebuild.files.printable import printable

FLOATS = ("float32", "float16")
# Names of the arrays of rescoring vectors, and of their scales.
_SECOND = ("rescoring", "rescoring_scales")


def longest(vectors, scales=None):
    """The norm of the longest of some vectors; infinite if a number is NaN or infinite.

    Args:
        vectors: `(n, width)`, of any dtype.
        scales: factors of the vectors, `(n,)`; None for 1.
    """
    with np.errstate(all="ignore"):
        for dtype in ("float32", "float64"):  # squares may be too large for float32
            values = vectors.astype(dtype, copy=False)
            norms = np.sqrt(np.einsum("ij,ij->i", values, values)) * (1 if scales is None else np.abs(scales))
            if np.isfinite(norms).all():
                return float(norms.max(initial=0))
    return np.inf


def rounding(terms):
    """A bound on the difference of two sums in float32 of that many products in any order, relative to the norms of the vectors.

    Reference: Higham, "Accuracy and stability of numerical algorithms", 2002, section 3.1.
    """
    return 2 * (terms + 8) * 2.0**-24


class DenseStorage:
    """One vector per document.

    Args:
        width: width of a vector.
        dtype: "float32", "float16", "int8" (with a scale for each vector) or "binary" (signs).
        rescoring: dtype of a second copy of the vectors, to rescore candidates found in those of `dtype`; "none" for no copy.

    Files of a block of n documents: `vectors`, `(n, width)`, with `scales`, `(n,)`, for int8, or `bits`, `(words, n)`, for binary;
    and for the second copy `rescoring` and `rescoring_scales`.
    """

    DTYPES = (*FLOATS, "int8", "binary")
    RESCORING: ClassVar[dict[str, tuple[str, ...]]] = {"int8": ("none", *FLOATS), "binary": ("int8", "none", *FLOATS)}
    BLOCK = 8192  # documents per block: 12 MB of 384 numbers each
    EXACT = False  # the last bits of matrix products depend on the shapes of the matrices

    def __init__(self, width, dtype, rescoring):
        self.width, self.dtype, self.rescoring = width, dtype, rescoring

    def arrays(self, documents):
        """Dtypes and shapes by name of the arrays of a block with this number of documents."""
        arrays = self._arrays(documents, "vectors", "scales", self.dtype)
        return arrays if self.rescoring == "none" else arrays | self._arrays(documents, *_SECOND, self.rescoring)

    @property
    def rescored(self):
        """The number of candidates that a search in these vectors must find, as a multiple of the requested documents.

        With MiniLM's vectors of 122,880 documents, 40 candidates from binary vectors contain 69 % of the best ten, 160 contain 89 %
        and 640 contain 98 %; ten candidates from int8 vectors, with the spare ones, contain all.
        """
        return {"int8": 4, "binary": 16}.get(self.dtype, 1)

    def encode(self, vectors):
        """The arrays of a block, from the vectors of its documents.

        Raises:
            ValueError: a vector has another width, or contains NaN or infinity.
        """
        vectors = self._stacked(vectors)
        encoded = self._encoded(vectors, "vectors", "scales", self.dtype)
        return encoded if self.rescoring == "none" else encoded | self._encoded(vectors, *_SECOND, self.rescoring)

    def check(self, block):
        """The norm of the longest vector of a block.

        Raises:
            ValueError: a number is NaN or infinite.
        """
        norms = [1.0]  # of signs
        for vectors, scales, dtype in (("vectors", "scales", self.dtype), (*_SECOND, self.rescoring)):
            if dtype not in ("binary", "none"):
                norms.append(longest(block[vectors], block[scales] if dtype == "int8" else None))
        block.check(max(norms) < np.inf, "finite numbers")
        return max(norms)

    def margins(self, queries, norm):
        """How much scores of equal vectors may differ, `(queries,)`; None for signs, whose distances are exact.

        Args:
            queries: vectors from `queries`.
            norm: the norm of the longest vector of the documents.
        """
        return None if self.dtype == "binary" else rounding(self.width) * np.linalg.norm(queries.astype("float64"), axis=1) * norm

    def queries(self, vectors):
        """The vectors of queries in the form for `score` and `rescore`: float32, `(queries, width)`."""
        return self._stacked(vectors)

    def score(self, block, queries):
        """The scores of all documents of a block: float32, `(queries, n)`; for binary vectors minus the Hamming distance."""
        if self.dtype == "binary":
            bits, of_queries = np.ascontiguousarray(block["bits"]), to_bits(queries)
            return np.stack([-hamming(bits, query).astype("float32") for query in of_queries.T])
        scores = queries @ block["vectors"].astype("float32", copy=False).T
        return scores * block["scales"] if self.dtype == "int8" else scores

    def rescore(self, block, query, rows):
        """The scores of some documents of a block for one query, computed in float64 and rounded to float32: `(rows,)`."""
        return (self.vectors(block, rows).astype("float64") * query).sum(1).astype("float32")

    def vectors(self, block, rows):
        """The vectors of some documents of a block, from the most exact copy: float32, `(rows, width)`."""
        if self.rescoring != "none":
            (vectors, scales), dtype = _SECOND, self.rescoring
        elif self.dtype == "binary":
            return from_bits(block["bits"][:, rows], self.width)
        else:
            vectors, scales, dtype = "vectors", "scales", self.dtype
        numbers = block[vectors][rows].astype("float32")
        return numbers * block[scales][rows][:, None] if dtype == "int8" else numbers

    def decode(self, block):
        """The vectors of all documents of a block, from the most exact copy: float32, `(n, width)`."""
        return self.vectors(block, slice(None))

    def _stacked(self, vectors):
        stacked = np.stack(vectors).astype("float32", copy=False)
        if stacked.shape[1:] != (self.width,):
            raise ValueError(f"expected vectors of width {self.width}; got the shape {stacked.shape[1:]}.")
        if not all_finite(stacked):
            raise ValueError("expected vectors of finite numbers; the model returned NaN or infinity.")
        return stacked

    def _arrays(self, documents, vectors, scales, dtype):
        if dtype == "binary":
            return {"bits": ("uint64", (-(-self.width // 64), documents))}
        stored = {vectors: (dtype, (documents, self.width))}
        return stored | ({scales: ("float32", (documents,))} if dtype == "int8" else {})

    def _encoded(self, vectors, name, scales, dtype):
        if dtype == "binary":
            return {"bits": to_bits(vectors)}
        stored, factors = stored_vectors(vectors, dtype)
        return {name: stored} if factors is None else {name: stored, scales: factors}


def to_bits(vectors):
    """The signs of vectors as bits, 1 for numbers above 0, packed into 64-bit words; the last word is padded with 0.

    Args:
        vectors: `(n, width)`.

    Returns:
        uint64, `(words, n)`: the first words of all vectors are contiguous, so that they are compared as arrays.
    """
    packed = np.packbits(vectors > 0, axis=1, bitorder="little")
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(packed.view("<u8").T)


def from_bits(bits, width):
    """Vectors of length 1 with the given signs: float32 `(n, width)` from uint64 `(words, n)`."""
    packed = np.ascontiguousarray(bits.T).view("uint8")
    signs = np.unpackbits(packed, axis=1, count=width, bitorder="little")
    return (signs.astype("float32") * 2 - 1) / np.float32(width**0.5)


def hamming(bits, query):
    """The Hamming distance of every vector from a query.

    Args:
        bits: uint64, `(words, n)`.
        query: uint64, `(words,)`.

    Returns:
        uint32, `(n,)`.
    """
    distances = np.zeros(bits.shape[1], "uint32")
    for word, of_query in zip(bits, query, strict=True):
        distances += count_bits(np.bitwise_xor(word, of_query))
    return distances


def _count_by_table(words):
    """`np.bitwise_count` for NumPy before version 2, by looking up the bit count of each 16-bit part."""
    parts = np.ascontiguousarray(words).view("uint16")
    return _table()[parts].reshape(*words.shape, 4).sum(-1, dtype="uint8")


def _table():
    if not _TABLE:
        _TABLE.append(np.unpackbits(np.arange(1 << 16, dtype="uint16").view("uint8").reshape(-1, 2), axis=1).sum(1, dtype="uint8"))
    return _TABLE[0]


_TABLE: list[np.ndarray] = []
count_bits = getattr(np, "bitwise_count", _count_by_table)


ENGINES = ("numpy", "faiss")


def check_engine(engine, vectors, path):
    """Refuse an engine.

    Args:
        engine: its name.
        vectors: the kind of vectors of the index.
        path: the folder of the index, for the error.

    Raises:
        ValueError: it is unknown, or does not search such vectors.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; got {engine!r}.")
    if engine != "numpy" and vectors != "dense":
        raise ValueError(f"the engine {engine} needs dense vectors; {printable(path)} has {vectors} ones.")


def faiss_candidates(blocks, storage, width):
    """Load the vectors of an index into a flat faiss index in memory.

    Args:
        blocks: a function that yields the `Block`s of the index.
        storage: the storage of dense vectors.
        width: width of a vector.

    Returns:
        A function of queries `(queries, width)` and a number n that returns the n best rows and their scores for each query; and
        the norm of the longest vector.

    Raises:
        ValueError: faiss is not installed.

    Reference: Douze et al., 2024 (https://arxiv.org/abs/2401.08281).
    """
    try:
        import faiss
    except ModuleNotFoundError:
        raise ValueError("the engine faiss needs the package faiss-cpu, which is not installed: pip install faiss-cpu.") from None
    flat = faiss.IndexFlatIP(width)
    norm = 0.0
    for block in blocks():
        flat.add(np.ascontiguousarray(storage.decode(block)))
        norm = max(norm, block.norm)

    def candidates(queries, count):
        answers = zip(*flat.search(np.ascontiguousarray(queries), count), strict=True)
        return [(rows[rows >= 0], scores[rows >= 0]) for scores, rows in answers]

    return candidates, norm
