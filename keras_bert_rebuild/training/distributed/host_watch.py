"""A watch over the other hosts of a training: when one stops, all stop.

A training step waits for all hosts, and whether a lost host is noticed depends on the connection: with sockets at once, with NVLink
and the links of TPUs never, and by JAX's own service after 100 seconds, by aborting the process.
"""

import contextlib
import os
import selectors
import socket
import struct
import sys
import threading
import time

BEAT = 2.0  # seconds between heartbeats
SILENCE = 30.0  # seconds without one after which a host counts as stopped
EXIT_CODE = 3  # of a process that stops because another host stopped
ALIVE, GOODBYE, STOPPED = b".", b"e", b"s"  # messages: one byte and the index of a host
MESSAGE = struct.Struct("!cI")


class HostWatch:
    """The links of one host: host 0 has one to every other host, every other host has one to host 0.

    Args:
        hosts: number of hosts.
        index: the index of this one.
        endpoint: on host 0 a listening socket, on the others its `(address, port)`.
        secret: bytes that every host of this training knows.
        when_stopped: called with a sentence, in a thread, when another host has stopped without a goodbye; by default the sentence
            is written to standard error and the process ends with `EXIT_CODE`, because its main thread may wait forever.
    """

    def __init__(self, hosts, index, endpoint, secret, when_stopped=None):
        self.hosts, self.index = hosts, index
        self._when_stopped = when_stopped or end_process
        self._links = _accepted(endpoint, hosts, secret) if index == 0 else {0: _connected(endpoint, index, secret)}
        self._heard = dict.fromkeys(self._links, time.monotonic())
        self._leaves = threading.Event()
        self.stopped = threading.Event()
        """Set when another host has stopped."""
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
        """Receive messages for a while; return the index of a host that has stopped and the reason, or None."""
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
            f"Host {host} of {self.hosts} {what}, and so does host {self.index}; the same command on all hosts resumes from the "
            "last checkpoint."
        )


def listening_socket():
    """A socket on a free port of all addresses of this host, including IPv6 if it has any."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # the system supports IPv6, but it is disabled
            return socket.create_server(("", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=1024)


def end_process(sentence):
    """End the process with a sentence on standard error, whatever its other threads do."""
    shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides the cursor
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        sys.stdout.flush()
        sys.stderr.write(f"{shown}\n{sentence}\n")
        sys.stderr.flush()
    os._exit(EXIT_CODE)


def _accepted(listener, hosts, secret, seconds=60):
    """The links to all other hosts, by index."""
    links, until = {}, time.monotonic() + seconds
    with listener:
        while len(links) < hosts - 1:
            listener.settimeout(max(until - time.monotonic(), 0.01))
            try:
                link, _ = listener.accept()
                link.settimeout(SILENCE)
                host = struct.unpack("!I", _exactly(link, 4))[0]
                known = _exactly(link, len(secret)) == secret
            except OSError:
                if time.monotonic() < until:
                    continue
                missing = next(host for host in range(1, hosts) if host not in links)
                raise ValueError(f"host {missing} must reach host 0, port {listener.getsockname()[1]}; it did not.") from None
            if known:
                links[host] = link
            else:
                link.close()
    return links


def _connected(endpoint, index, secret):
    try:
        link = socket.create_connection(endpoint, timeout=SILENCE)
        link.sendall(struct.pack("!I", index) + secret)
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
