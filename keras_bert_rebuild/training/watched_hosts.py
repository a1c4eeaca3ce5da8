"""A training on several hosts from its first to its last step: it ends on all of them, in good order or not."""

import atexit
import contextlib
import os
import secrets
import socket
import sys
import time

import numpy as np

from keras_bert_rebuild.training.host_watch import EXIT_CODE, HostWatch, listening_socket
from keras_bert_rebuild.training.hosts import ADDRESSES, gathered, host_count, host_index

GRACE = 5.0  # seconds for the watch to tell that a host has stopped, where JAX was first to notice
ADDRESS_BYTES = 256  # a name in the DNS has at most 253


@contextlib.contextmanager
def watched_hosts(coordinator=None, ends_together=()):
    """Let the hosts of a training watch each other; with one host it does nothing.

    Inside, a host that stops in any way makes the others stop with a sentence and the exit code `host_watch.EXIT_CODE`. All leave
    together. An error of this host alone is raised as usual; its process then does not wait for the others when it ends.

    Args:
        coordinator: `address:port` of host 0, if it is known; only the address is used.
        ends_together: exceptions that are raised on all hosts alike.
    """
    if host_count() == 1:
        yield
        return
    watch = _watch(coordinator or os.environ.get(ADDRESSES))
    together = False
    try:
        yield
        together = True
    except ends_together:
        together = True
        raise
    except RuntimeError:  # of JAX, perhaps, for whom the connection to another host has ended
        time.sleep(GRACE)
        raise
    finally:
        if together:
            gathered([0])  # host 0 may have more to write than the others
        else:
            atexit.register(_leave_alone)
        watch.leave(goodbye=together)


def _watch(coordinator):
    """The watch of this host, after host 0 has told the others its address, a port and a secret."""
    listener = listening_socket() if host_index() == 0 else None
    told = np.zeros(2 + ADDRESS_BYTES // 8, "int64")
    if listener is not None:
        address = coordinator.split(",")[0].rpartition(":")[0] if coordinator else _own_address()
        told[:2] = listener.getsockname()[1], secrets.randbits(62)
        told[2:] = np.frombuffer(address.strip("[]").encode().ljust(ADDRESS_BYTES, b"\0"), "int64")
    told = gathered(told)[0]
    place = told[2:].tobytes().rstrip(b"\0").decode(), int(told[0])
    return HostWatch(host_count(), host_index(), listener or place, told[1].tobytes())


def _own_address():
    """The address that this host sends from, or its name where no way leads out of a cluster; no packet is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation
        except OSError:
            return socket.gethostname()
        return probe.getsockname()[0]


def _leave_alone():
    """At the end of a process whose training failed here: JAX would wait for the others, which have stopped, and abort."""
    with contextlib.suppress(OSError, ValueError):  # nobody reads any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT_CODE)
