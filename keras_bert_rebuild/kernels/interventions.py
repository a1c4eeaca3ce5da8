"""Which interventions are running, so that no compiled function answers for a model in another state than it is in."""

import contextlib
import threading
from collections.abc import Iterator

_LOCK = threading.Lock()
_running: frozenset[object] = frozenset()


def running_interventions() -> frozenset[object]:
    """The interventions that are running in this process, in any model; empty but within `intervening`.

    What was compiled under one set is right under that set alone: a compiled function has the model's Python code as it was when it
    was traced.
    """
    return _running


@contextlib.contextmanager
def intervening() -> Iterator[None]:
    """Mark that what some layers compute is changed. Afterwards the set is again the one before."""
    global _running
    own = object()
    with _LOCK:
        _running |= {own}
    try:
        yield
    finally:
        with _LOCK:
            _running -= {own}
