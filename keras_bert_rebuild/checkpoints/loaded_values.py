"""Values of variables that are loaded, without a second copy of the model in memory.

A backend writes zeros into a new variable and copies an array that is assigned to it, so that loading BERT-base would take one
and a half times its size. If a backend can avoid that, `kernels/table.py` has a kernel for it. Arrays are read into memory that a
backend can use without a copy, and a position table may become shorter or longer on the way.
"""

import math

import numpy as np
from keras import ops

from keras_bert_rebuild.files.regular import check_regular
from keras_bert_rebuild.kernels.table import choose
from keras_bert_rebuild.kernels.traits import aligned_array


def unwritten(shape, dtype):
    """A tensor of arbitrary values for a variable that is about to be filled; it takes no memory until then.

    Args:
        shape: of the tensor.
        dtype: of its numbers, in Keras's spelling.
    """
    kernel = choose("unwritten")
    return ops.empty(shape, dtype) if kernel is None else kernel(shape, dtype)


def handed_over(array):
    """What to assign to a variable for an array that no one else will write: the array itself if the backend copies it anyway."""
    kernel = choose("handed_over")
    return array if kernel is None else kernel(array)


def read_array(path, dtype, shape, offset):
    """Read an array into new memory.

    It is not a view of the file: a backend may retain the array, and the file may change.

    Args:
        path: the file.
        dtype: of the numbers, in NumPy's spelling.
        shape: of the array.
        offset: bytes before it.

    Raises:
        ValueError: the file ends before the array does.
    """
    # Before memory is allocated: the shape is not trusted.
    end = offset + math.prod(shape) * np.dtype(dtype).itemsize
    if end > check_regular(path):
        raise ValueError(f"{path} is damaged: it ends before byte {end}.")
    array = aligned_array(shape, dtype)
    with path.open("rb") as file:
        file.seek(offset)
        if file.readinto(array.reshape(-1).view("uint8")) != array.nbytes:
            raise ValueError(f"{path} is damaged: it ends before byte {offset + array.nbytes}.")
    return array


HIERARCHY = 0.4


def repeat_positions(table, rows):
    """Repeat the table after its last row: row i is row i mod n."""
    return table[np.arange(rows) % len(table)]


def interpolate_positions(table, rows):
    """Interpolate linearly: the first and the last row stay, and the others are evenly spaced between them."""
    source = np.linspace(0, len(table) - 1, rows)
    low = np.floor(source).astype(int)
    high = np.minimum(low + 1, len(table) - 1)
    share = (source - low)[:, None].astype(table.dtype)
    return table[low] * (1 - share) + table[high] * share


def hierarchical_positions(table, rows):
    """Give position i · n + j the vector α u_i + (1 − α) u_j, with u chosen so that the first n rows stay.

    Reference: Su, 2020, "Hierarchical decomposition of position embeddings" (https://kexue.fm/archives/7947), with α = 0.4.
    """
    if rows > len(table) ** 2:
        raise ValueError(f"hierarchical positions reach {len(table) ** 2} from {len(table)}; got {rows}.")
    base = (table - HIERARCHY * table[:1]) / (1 - HIERARCHY)
    i, j = np.divmod(np.arange(rows), len(table))
    return (HIERARCHY * base[i] + (1 - HIERARCHY) * base[j]).astype(table.dtype)


METHODS = {"repeat": repeat_positions, "interpolate": interpolate_positions, "hierarchical": hierarchical_positions}


def fit_positions(table, rows, offset=0, method=None):
    """The table with the given number of rows.

    Args:
        table: `(n, hidden)`.
        rows: of the result; fewer than n are the first ones, more need a method.
        offset: rows at the front that are not positions and are retained.
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
