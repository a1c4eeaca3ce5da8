"""The maximum flow through a small dense graph."""

import numpy as np

# Capacities below this are treated as 0, since float64 sums leave such remainders.
NOTHING = 1e-12


def maximum_flow(capacity: np.ndarray, source: int, sink: int) -> float:
    """The maximum flow from one node to another.

    Args:
        capacity: capacities of the edges from row to column, float64 `(nodes, nodes)`; not changed.
        source, sink: indices of nodes.

    Reference: Dinitz, 1970: blocking flows in level graphs.

    Example:

    >>> maximum_flow(np.array([[0, 3, 2, 0], [0, 0, 5, 2], [0, 0, 0, 3], [0, 0, 0, 0]], float), 0, 3)
    5.0
    """
    residual, total = np.array(capacity, "float64"), 0.0
    while (levels := _levels(residual, source, sink)) is not None:
        total += _blocking_flow(residual, levels, source, sink)
    return float(total)


def _levels(residual, source, sink):
    """The distance of every node from the source, -1 if it is unreachable; None if the sink is unreachable."""
    levels, frontier = np.full(len(residual), -1), np.array([source])
    levels[source] = distance = 0
    while len(frontier) and levels[sink] < 0:
        distance += 1
        frontier = np.flatnonzero((residual[frontier] > NOTHING).any(0) & (levels < 0))
        levels[frontier] = distance
    return None if levels[sink] < 0 else levels


def _blocking_flow(residual, levels, source, sink):
    """Send flow along shortest paths until each has a saturated edge; return the total."""
    arcs: dict[int, list[int]] = {}  # the remaining edges to try at a node
    path, total = [source], 0.0
    while path:
        node = path[-1]
        if node == sink:
            heads, tails = path[:-1], path[1:]
            widths = residual[heads, tails]
            sent = widths.min()
            residual[heads, tails] -= sent
            residual[tails, heads] += sent
            total += sent
            path = path[: int(widths.argmin()) + 1]
            continue
        if node not in arcs:
            arcs[node] = np.flatnonzero((residual[node] > NOTHING) & (levels == levels[node] + 1)).tolist()
        while arcs[node] and residual[node, arcs[node][-1]] <= NOTHING:
            arcs[node].pop()
        if arcs[node]:
            path.append(arcs[node][-1])
        else:
            path.pop()
            if path:
                arcs[path[-1]].pop()
    return total
