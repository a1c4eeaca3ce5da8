"""Late interaction: MaxSim over stored token vectors, and how these are stored.

The vectors of all documents are rows of one array; `starts` has the first row of each document, and last the number of rows.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

# How token vectors are stored.
STORED = ("float32", "float16", "int8")

# Rows of token vectors compared at a time: 8 MiB as float32 with 128 dimensions.
ROWS_AT_ONCE = 16384


def stored_vectors(vectors: npt.ArrayLike, dtype: str = "float32") -> tuple[npt.NDArray, npt.NDArray[np.float32] | None]:
    """Vectors in the form in which they are stored.

        int8:  scale = max |vector| / 127,  code = round(vector / scale)

    Args:
        vectors: `(rows, width)`.
        dtype: one of `STORED`.

    Returns:
        An array of that dtype, `(rows, width)`; and for int8 the scale of every row, `(rows,)`, else None.

    Raises:
        ValueError: the dtype is unknown.

    Example:

    >>> codes, scales = stored_vectors([[0.5, -1.0]], "int8")
    >>> codes.tolist(), (codes * scales[:, None]).round(2).tolist()
    ([[64, -127]], [[0.5, -1.0]])
    """
    vectors = np.asarray(vectors, "float32")
    if dtype not in STORED:
        raise ValueError(f"token vectors must be stored as {', '.join(STORED)}; got {dtype!r}.")
    if dtype != "int8":
        return vectors.astype(dtype, copy=False), None
    scales = np.abs(vectors).max(axis=-1, initial=0.0) / np.float32(127)
    codes = np.rint(vectors / np.where(scales > 0, scales, 1)[..., None])
    return codes.astype("int8"), scales.astype("float32")


def max_sim(
    query: npt.ArrayLike,
    vectors: npt.NDArray,
    starts: npt.ArrayLike,
    scales: npt.NDArray[np.float32] | None = None,
    documents: npt.ArrayLike | None = None,
    dtype: str = "float32",
) -> npt.NDArray[np.float32]:
    """The MaxSim score of documents: for every query token its best match among the document's tokens, summed.

        score = Σ_i max_j query_i · document_j

    Documents are read in blocks of about `ROWS_AT_ONCE` token vectors, so the arrays may be memory-mapped.

    Args:
        query: the vectors of the query's tokens, `(tokens, width)`.
        vectors: the token vectors of all documents, `(rows, width)`, in any dtype of `STORED`.
        starts: the first row of each document, and last the number of rows, `(documents + 1,)`.
        scales: factors of the rows, from `stored_vectors`; None for 1.
        documents: indices of the documents to score, such as the candidates of a search; None for all.
        dtype: dtype of products and sums, "float32" or "float64"; in float32 their last bits depend on the other documents.

    Returns:
        A score per document, in the given order; −inf for a document without tokens.

    Raises:
        ValueError: the query's vectors have another width.

    Reference: Khattab and Zaharia, 2020, section 3.3 (https://arxiv.org/abs/2004.12832).

    Example:

    >>> max_sim([[1.0, 0.0], [0.0, 1.0]], np.array([[1.0, 0.0], [0.5, 0.75], [0.0, 1.0]]), [0, 2, 3]).tolist()
    [1.75, 1.0]
    """
    query, starts = np.asarray(query, dtype), np.asarray(starts, "int64")
    if query.ndim != 2 or query.shape[1] != vectors.shape[1]:
        raise ValueError(
            f"the vectors of the query must be (tokens, {vectors.shape[1]}), like those of the documents; got {query.shape}."
        )
    numbers = np.arange(len(starts) - 1) if documents is None else np.asarray(documents, "int64")
    sizes = starts[numbers + 1] - starts[numbers]
    scores = np.full(len(numbers), -np.inf, "float32")
    # In row order, for memory-mapped arrays; documents without tokens are left out.
    order = np.argsort(starts[numbers], kind="stable")
    order = order[sizes[order] > 0]
    for block in _blocks(order, sizes):
        rows = _rows(starts[numbers[block]], sizes[block])
        similarities = query @ vectors[rows].astype(dtype, copy=False).T
        if scales is not None:
            similarities *= scales[rows]
        firsts = np.cumsum(sizes[block]) - sizes[block]
        scores[block] = np.maximum.reduceat(similarities, firsts, axis=1).sum(axis=0)
    return scores


def _blocks(order: npt.NDArray, sizes: npt.NDArray) -> Iterator[npt.NDArray]:
    """Split the order into parts of about `ROWS_AT_ONCE` rows, at least one document each."""
    ends = np.cumsum(sizes[order])
    first = 0
    while first < len(order):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + ROWS_AT_ONCE, "right")))
        yield order[first:last]
        first = last


def _rows(firsts: npt.NDArray, sizes: npt.NDArray) -> slice | npt.NDArray:
    """The rows of documents from their first rows and numbers of rows: a slice, which copies nothing, if they are contiguous."""
    ends = firsts + sizes
    if np.array_equal(firsts[1:], ends[:-1]):
        return slice(int(firsts[0]), int(ends[-1]))
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(firsts, sizes) + within
