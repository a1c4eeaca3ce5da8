"""Which interventions are active, so that no compiled function is used for a model in another state."""

import contextlib
import threading
from collections.abc import Iterator

_LOCK = threading.Lock()
_running: frozenset[object] = frozenset()


def running_interventions() -> frozenset[object]:
    """The interventions that are active in this process, in any model; empty outside `intervening`.

    A compiled function contains the model's Python code as it was when traced, so it is only valid for the set of interventions it
    was compiled under.
    """
    return _running


@contextlib.contextmanager
def intervening() -> Iterator[None]:
    """Mark the computation of some layers as changed while the block runs; then the previous set is restored."""
    global _running
    own = object()
    with _LOCK:
        _running |= {own}
    try:
        yield
    finally:
        with _LOCK:
            _running -= {own}
