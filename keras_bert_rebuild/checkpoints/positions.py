"""Position tables with another length than in the checkpoint."""

import numpy as np

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
