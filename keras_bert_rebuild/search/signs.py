"""Binary vectors: the signs of numbers as bits, compared by Hamming distance."""

import numpy as np


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
    found = np.zeros(bits.shape[1], "uint32")
    for word, of_query in zip(bits, query, strict=True):
        found += count_bits(np.bitwise_xor(word, of_query))
    return found


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
