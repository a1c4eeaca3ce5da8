"""A training on several hosts, which ends on all of them, cleanly or not."""

import atexit
import contextlib
import os
import secrets
import socket
import sys
import time

import numpy as np

from keras_bert_rebuild.training.distributed.host_watch import EXIT_CODE, HostWatch, listening_socket
from keras_bert_rebuild.training.distributed.hosts import ADDRESSES, gathered, host_count, host_index

GRACE = 5.0  # seconds for the watch to report a stopped host, if JAX noticed it first
ADDRESS_BYTES = 256  # a name in the DNS has at most 253


@contextlib.contextmanager
def watched_hosts(coordinator=None, ends_together=()):
    """Make the hosts of a training watch each other; with one host it does nothing.

    Inside, a host that stops in any way makes the others stop with a sentence and the exit code `host_watch.EXIT_CODE`. All hosts
    leave together. An error of only this host is raised as usual; its process then does not wait for the others when it ends.

    Args:
        coordinator: `address:port` of host 0, if it is known; only the address is used.
        ends_together: exceptions that are raised on all hosts.
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
    except RuntimeError:  # perhaps of JAX, when the connection to another host has ended
        time.sleep(GRACE)
        raise
    finally:
        if together:
            gathered([0])  # host 0 may have more to write than the others
        else:
            atexit.register(_leave_alone)
        watch.leave(goodbye=together)


def _watch(coordinator):
    """The watch of this host, after host 0 has sent its address, a port and a secret to the others."""
    listener = listening_socket() if host_index() == 0 else None
    values = np.zeros(2 + ADDRESS_BYTES // 8, "int64")
    if listener is not None:
        address = coordinator.split(",")[0].rpartition(":")[0] if coordinator else _own_address()
        values[:2] = listener.getsockname()[1], secrets.randbits(62)
        values[2:] = np.frombuffer(address.strip("[]").encode().ljust(ADDRESS_BYTES, b"\0"), "int64")
    values = gathered(values)[0]
    endpoint = values[2:].tobytes().rstrip(b"\0").decode(), int(values[0])
    return HostWatch(host_count(), host_index(), listener or endpoint, values[1].tobytes())


def _own_address():
    """The address that this host sends from, or its name in a cluster without outside connection; sends no packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address reserved for documentation
        except OSError:
            return socket.gethostname()
        return probe.getsockname()[0]


def _leave_alone():
    """Exit at the end of a process whose training failed: JAX would wait for the others, which have stopped, and abort."""
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT_CODE)
