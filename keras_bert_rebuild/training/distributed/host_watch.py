"""A watch that stops a training on all hosts when one of them stops.

A training step waits for all hosts, and whether it notices a lost host depends on the interconnect: with sockets at once, with
NVLink and the links of TPUs never. JAX's own service notices after 100 seconds, and aborts the process.
"""

import atexit
import contextlib
import hmac
import ipaddress
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
import time

import numpy as np

from keras_bert_rebuild.training.distributed.hosts import ADDRESSES, gathered, host_count, host_index

BEAT = 2.0  # seconds between heartbeats
SILENCE = 30.0  # seconds without a heartbeat after which a host is considered stopped
EXIT_CODE = 3  # of a process that stops because another host stopped
ALIVE, GOODBYE, STOPPED = b".", b"e", b"s"  # messages: one byte and the index of a host
MESSAGE = struct.Struct("!cI")
HELLO = struct.Struct("!I")  # the index of a host, before the secret
STRANGERS = 64  # connections, besides those of the hosts, that host 0 holds while it waits for the hosts


class HostWatch:
    """The connections of one host: host 0 is connected to every other host, and each of those only to host 0.

    Args:
        hosts: number of hosts.
        index: the index of this host.
        endpoint: on host 0 a listening socket, on the others its `(address, port)`.
        secret: bytes that every host of this training knows.
        when_stopped: called in a thread, with a sentence, if another host has stopped without a goodbye; by default the sentence
            is written to standard error and the process exits with `EXIT_CODE`, because its main thread may wait forever.
    """

    def __init__(self, hosts, index, endpoint, secret, when_stopped=None):
        self.hosts, self.index = hosts, index
        self._when_stopped = when_stopped or end_process
        self._links = _accepted(endpoint, hosts, secret) if index == 0 else {0: _connected(endpoint, index, secret)}
        self._heard = dict.fromkeys(self._links, time.monotonic())
        self._leaves = threading.Event()
        self.stopped = threading.Event()
        """Set after another host has stopped."""
        self._thread = threading.Thread(target=self._watch, name="host watch", daemon=True)
        self._thread.start()

    def leave(self, goodbye):
        """End the watch: with a goodbye, or without one, which stops the other hosts."""
        self._leaves.set()
        self._thread.join()
        for link in self._links.values():
            if goodbye:
                _send(link, GOODBYE, self.index)
            link.close()

    def _watch(self):
        with selectors.DefaultSelector() as selector:
            for host, link in self._links.items():
                selector.register(link, selectors.EVENT_READ, host)
            beat, found = 0.0, None
            while found is None and not self._leaves.is_set():
                if time.monotonic() - beat >= BEAT:
                    beat = time.monotonic()
                    for link in self._links.values():
                        _send(link, ALIVE, self.index)
                found = self._listen(selector)
        if found is not None:
            self._stop(*found)

    def _listen(self, selector):
        """Receive messages for a while; return the index of a stopped host and the reason, or None."""
        for key, _ in selector.select(timeout=BEAT / 10):
            kind, host = _received(key.fileobj, key.data)
            if kind == STOPPED:
                return host, "has stopped"
            self._heard[key.data] = time.monotonic()
            if kind == GOODBYE:
                selector.unregister(key.fileobj)
                del self._heard[key.data]
        silent = [host for host, heard in self._heard.items() if time.monotonic() - heard > SILENCE]
        return (silent[0], f"has not answered for {SILENCE:.0f} seconds") if silent else None

    def _stop(self, host, what):
        self.stopped.set()
        for other, link in self._links.items():
            if self.index == 0 and other != host:
                _send(link, STOPPED, host)
        self._when_stopped(
            f"Host {host} of {self.hosts} {what}, so host {self.index} stops too; the same command on all hosts resumes from the "
            "last checkpoint."
        )


def listening_socket(address=""):
    """A socket on a free port of all addresses of this host, including IPv6 if it has any.

    Args:
        address: where the other hosts find this one; a loopback address, for hosts of one machine, is the only one listened on.
    """
    if _is_loopback(address):
        return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=1024)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # the system supports IPv6, but it is disabled
            return socket.create_server(("", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=1024)


def _is_loopback(address):
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name
        return address == "localhost"


def end_process(sentence):
    """Exit the process at once, with a sentence on standard error."""
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides the cursor
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        sys.stdout.flush()
        sys.stderr.write(f"{shown}\n{sentence}\n")
        sys.stderr.flush()
    os._exit(EXIT_CODE)


def _accepted(listener, hosts, secret, seconds=60):
    """The links to all other hosts, by index. Anyone can connect; of those that have not sent the secret, none delays another."""
    links, strangers, until = {}, {}, time.monotonic() + seconds  # what each stranger has sent, from the oldest on
    with listener, selectors.DefaultSelector() as selector:
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)

        def leave(link):
            selector.unregister(link)
            return strangers.pop(link)

        try:
            while len(links) < hosts - 1:
                if time.monotonic() >= until:
                    missing = next(host for host in range(1, hosts) if host not in links)
                    raise ValueError(f"host {missing} must reach host 0, port {listener.getsockname()[1]}; it did not.")
                for key, _ in selector.select(until - time.monotonic()):
                    if key.fileobj is listener:
                        with contextlib.suppress(OSError):  # the other end is gone already
                            link, _ = listener.accept()
                            link.setblocking(False)
                            strangers[link] = b""
                            selector.register(link, selectors.EVENT_READ)
                        if len(strangers) > hosts + STRANGERS:
                            oldest = next(iter(strangers))
                            leave(oldest)
                            oldest.close()
                    elif (link := key.fileobj) in strangers:
                        sent = _more(link, strangers[link], HELLO.size + len(secret))
                        strangers[link] = sent
                        if sent is None or len(sent) == HELLO.size + len(secret):
                            leave(link)
                            host = _introduced(sent, hosts, secret)
                            if host is None:
                                link.close()
                            else:
                                link.settimeout(SILENCE)
                                links[host] = link
        finally:
            for link in strangers:
                link.close()
    return links


def _more(link, sent, size):
    """What a link has sent so far, at most `size` bytes, without waiting; None if its other end is closed."""
    try:
        part = link.recv(size - len(sent))
    except BlockingIOError:
        return sent
    except OSError:
        return None
    return sent + part if part else None


def _introduced(sent, hosts, secret):
    """The index of the host that sent this; None for a stranger."""
    if sent is None or not hmac.compare_digest(sent[HELLO.size :], secret):
        return None
    (host,) = HELLO.unpack(sent[: HELLO.size])
    return host if 0 < host < hosts else None


def _connected(endpoint, index, secret):
    try:
        link = socket.create_connection(endpoint, timeout=SILENCE)
        link.sendall(HELLO.pack(index) + secret)
    except OSError as error:
        raise ValueError(f"host {index} must reach host 0 at {endpoint[0]}:{endpoint[1]}: {error.strerror or error}.") from None
    return link


def _send(link, kind, host):
    with contextlib.suppress(OSError):  # a lost connection is noticed when reading
        link.sendall(MESSAGE.pack(kind, host))


def _received(link, host):
    """The message of a host; `STOPPED` if the link is broken."""
    try:
        return MESSAGE.unpack(_exactly(link, MESSAGE.size))
    except OSError:
        return STOPPED, host


def _exactly(link, size):
    content = b""
    while len(content) < size:
        part = link.recv(size - len(content))
        if not part:
            raise ConnectionError("the other end is closed")
        content += part
    return content


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
    except RuntimeError:  # possibly an error of JAX about a lost connection to another host
        time.sleep(GRACE)
        raise
    finally:
        if together:
            gathered([0])  # host 0 may still be writing
        else:
            atexit.register(_leave_alone)
        watch.leave(goodbye=together)


def _watch(coordinator):
    """The watch of this host, after host 0 has sent its address, a port and a secret to the others."""
    listener = None
    values = np.zeros(2 + ADDRESS_BYTES // 8, "int64")
    if host_index() == 0:
        address = (coordinator.split(",")[0].rpartition(":")[0] if coordinator else _own_address()).strip("[]")
        listener = listening_socket(address)
        values[:2] = listener.getsockname()[1], secrets.randbits(62)
        values[2:] = np.frombuffer(address.encode().ljust(ADDRESS_BYTES, b"\0"), "int64")
    values = gathered(values)[0]
    endpoint = values[2:].tobytes().rstrip(b"\0").decode(), int(values[0])
    return HostWatch(host_count(), host_index(), listener or endpoint, values[1].tobytes())


def _own_address():
    """The address that this host sends from, or its name in a cluster without an outside connection; sends no packet."""
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
