"""Initial values of variables that are about to be loaded, without a second copy of the model in memory.

By default a backend fills a new variable with zeros and copies every array assigned to it; loading BERT-base would take 1.5 times
its size. So variables begin as `kernels.unwritten`. Arrays are read into memory that a backend can use without a copy; position
tables may be shortened or extended on the way.
"""

import math

import numpy as np

from keras_bert_rebuild.files.reading import check_regular
from keras_bert_rebuild.kernels.traits import aligned_array


def read_array(path, dtype, shape, offset):
    """Read an array into new memory.

    The result is not a memory map: a backend may retain the array, and the file may change.

    Args:
        path: the file.
        dtype: dtype in NumPy's spelling.
        shape: shape of the array.
        offset: offset of the array in the file, in bytes.

    Raises:
        ValueError: the file is too short.
    """
    # The shape is untrusted: check it before memory is allocated.
    end = offset + math.prod(shape) * np.dtype(dtype).itemsize
    if end > check_regular(path):
        raise ValueError(f"{path} is damaged: it should have at least {end} bytes.")
    array = aligned_array(shape, dtype)
    with path.open("rb") as file:
        file.seek(offset)
        if file.readinto(array.reshape(-1).view("uint8")) != array.nbytes:
            raise ValueError(f"{path} is damaged: it should have at least {offset + array.nbytes} bytes.")
    return array


HIERARCHY = 0.4


def repeat_positions(table, rows):
    """Repeat the table: row i is row i mod n."""
    return table[np.arange(rows) % len(table)]


def interpolate_positions(table, rows):
    """Interpolate linearly: the first and last rows are unchanged, the others evenly spaced between them."""
    source = np.linspace(0, len(table) - 1, rows)
    low = np.floor(source).astype(int)
    high = np.minimum(low + 1, len(table) - 1)
    share = (source - low)[:, None].astype(table.dtype)
    return table[low] * (1 - share) + table[high] * share


def hierarchical_positions(table, rows):
    """Give position i · n + j the vector α u_i + (1 − α) u_j, with u such that the first n rows are unchanged.

    Reference: Su, 2020, "Hierarchical decomposition of position embeddings" (https://kexue.fm/archives/7947), with α = 0.4.
    """
    if rows > len(table) ** 2:
        raise ValueError(f"hierarchical extension of {len(table)} positions reaches at most {len(table) ** 2}; got {rows}.")
    base = (table - HIERARCHY * table[:1]) / (1 - HIERARCHY)
    i, j = np.divmod(np.arange(rows), len(table))
    return (HIERARCHY * base[i] + (1 - HIERARCHY) * base[j]).astype(table.dtype)


METHODS = {"repeat": repeat_positions, "interpolate": interpolate_positions, "hierarchical": hierarchical_positions}


def fit_positions(table, rows, offset=0, method=None):
    """A position table with the given number of rows.

    Args:
        table: `(n, hidden)`.
        rows: number of rows of the result; the first ones if fewer than n, extended by `method` if more.
        offset: rows at the start that are not positions and are retained.
        method: "repeat", "interpolate" or "hierarchical".
    """
    if rows <= len(table):
        return table[:rows]
    if method not in METHODS:
        raise ValueError(
            f"the checkpoint has {len(table) - offset} positions, but {rows - offset} were requested: "
            f"choose extend_positions from {', '.join(METHODS)}; got {method!r}."
        )
    front = np.asarray(table[:offset])
    return np.concatenate([front, METHODS[method](np.asarray(table[offset:]), rows - offset)])
