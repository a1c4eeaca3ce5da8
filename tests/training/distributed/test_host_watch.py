"""Hosts notice a host that stops, unless it says goodbye, and agree on when they begin and how one leaves."""

import contextlib
import errno
import ipaddress
import os
import queue
import socket
import sys
import threading
import time

import numpy as np
import pytest

from keras_bert_rebuild.training.distributed import host_watch
from keras_bert_rebuild.training.distributed.host_watch import EXIT_CODE, HostWatch, listening_socket

SECRET = b"12345678"


@pytest.fixture
def hosts(monkeypatch):
    """Three hosts in one process, the message of each when it stopped, and a list for other hosts."""
    monkeypatch.setattr(host_watch, "BEAT", 0.05)
    listener = listening_socket()
    place = "127.0.0.1", listener.getsockname()[1]
    said = queue.Queue()
    watches = [None] * 3

    def join(index):
        watches[index] = HostWatch(3, index, place if index else listener, SECRET, lambda sentence: said.put((index, sentence)))

    threads = [threading.Thread(target=join, args=(index,)) for index in range(3)]
    stranger = socket.create_connection(place)
    stranger.sendall(b"\0\0\0\1" + b"87654321")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stranger.close()
    yield watches, said
    for watch in watches:
        watch.leave(goodbye=True)


def sentences(said, count):
    return dict(said.get(timeout=10) for _ in range(count))


@pytest.mark.parametrize("stopped", [0, 1, 2])
def test_when_a_host_stops_all_others_say_which(hosts, stopped):
    watches, said = hosts
    watches[stopped].leave(goodbye=False)
    heard = sentences(said, 2)
    assert heard.keys() == {0, 1, 2} - {stopped}
    for index, sentence in heard.items():
        assert sentence.startswith(f"Host {stopped} of 3 has stopped, so host {index} stops too; the same command on all hosts")
        assert watches[index].stopped.is_set()


def test_hosts_that_say_goodbye_do_not_stop_others(hosts):
    watches, said = hosts
    watches[2].leave(goodbye=True)
    watches[0].leave(goodbye=True)
    time.sleep(0.3)
    assert said.empty()
    assert not watches[1].stopped.is_set()


def test_a_host_that_is_silent_counts_as_stopped(hosts, monkeypatch):
    _, said = hosts
    monkeypatch.setattr(host_watch, "SILENCE", 0.5)
    monkeypatch.setattr(host_watch, "_send", lambda link, said, host: None)  # no messages arrive, and no connection is closed
    assert any("has not answered for" in sentence for sentence in sentences(said, 3).values())


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return socket.has_dualstack_ipv6()


@pytest.mark.parametrize("address", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6"))])
def test_host_0_is_reached_at_all_of_its_addresses(address):
    with listening_socket() as listener:
        socket.create_connection((address, listener.getsockname()[1]), timeout=10).close()


STRANGERS = {
    "silent": lambda link: None,
    "half": lambda link: link.sendall(b"\0\0\0\1" + SECRET[:5]),
    "wrong": lambda link: link.sendall(b"\0\0\0\1" + b"87654321"),
    "unknown host": lambda link: link.sendall(b"\0\0\0\7" + SECRET),
    "gone": lambda link: link.close(),
    "talking": lambda link: link.sendall(b"GET / HTTP/1.1\r\n" * 1000),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_delay_no_host(kind):
    with contextlib.ExitStack() as stack:
        listener = listening_socket("127.0.0.1")
        place = listener.getsockname()
        for _ in range(70):
            STRANGERS[kind](stack.enter_context(socket.create_connection(place)))
        watches, began = [None] * 3, time.monotonic()

        def join(index):
            watches[index] = HostWatch(3, index, place if index else listener, SECRET, lambda sentence: None)

        threads = [threading.Thread(target=join, args=(index,), daemon=True) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=5)
        assert watches[0] is not None, f"host 0 still waits after {time.monotonic() - began:.0f} seconds"
        assert watches[0]._links.keys() == {1, 2}
        for watch in watches:
            watch.leave(goodbye=True)


def test_host_0_keeps_few_strangers_and_waits_for_a_missing_host_no_longer_because_of_them():
    with contextlib.ExitStack() as stack:
        listener = listening_socket("127.0.0.1")
        place, said = listener.getsockname(), queue.Queue()

        def wait():
            try:
                host_watch._accepted(listener, 2, SECRET, seconds=1)
            except ValueError as error:
                said.put(str(error))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        links = [stack.enter_context(socket.create_connection(place, timeout=5)) for _ in range(host_watch.STRANGERS + 5)]
        assert links[0].recv(1) == b""  # the oldest is closed at once
        assert said.empty()
        for _ in range(7):  # bytes that come one by one
            with contextlib.suppress(OSError):
                links[-1].sendall(b"\0")
            time.sleep(0.2)
        assert said.get(timeout=1) == f"host 1 must reach host 0, port {place[1]}; it did not."
        assert links[-1].recv(1) == b""


def test_hosts_of_one_machine_listen_to_no_other():
    for address in ("127.0.0.1", "localhost", *(["::1"] if has_ipv6() else [])):
        with listening_socket(address) as listener:
            assert ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    with listening_socket("10.0.0.1") as listener:
        assert listener.getsockname()[0] in ("::", "0.0.0.0")


def test_a_host_that_cannot_reach_host_0_says_where_it_looked():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ValueError, match=rf"host 1 must reach host 0 at 127\.0\.0\.1:{port}: "):
        HostWatch(2, 1, ("127.0.0.1", port), SECRET)


LONG = "worker-0." + "a-name-of-a-cluster." * 11 + "local"


@pytest.fixture
def watches(monkeypatch):
    """Takes a coordinator and returns the watch arguments of two hosts, created one after the other in this process."""
    made, said = [], []

    def gathered(values):
        said.append(values)
        return np.stack([said[0], values])

    monkeypatch.setattr(host_watch, "gathered", gathered)
    monkeypatch.setattr(host_watch, "host_count", lambda: 2)
    monkeypatch.setattr(host_watch, "HostWatch", lambda *given: made.append(given))

    def of(coordinator):
        for index in range(2):
            monkeypatch.setattr(host_watch, "host_index", lambda index=index: index)
            host_watch._watch(coordinator)
        return made

    yield of
    made[0][2].close()


@pytest.mark.parametrize(
    ("coordinator", "address"),
    [
        ("10.0.0.1:1234", "10.0.0.1"),
        ("[fd00::1]:1234", "fd00::1"),
        ("one:1234,two:1234", "one"),
        pytest.param(f"{LONG}:1234", LONG, id="a long name"),
    ],
)
def test_the_others_hear_the_address_the_port_and_the_secret_of_host_0(watches, coordinator, address):
    (hosts, index, listener, secret), other = watches(coordinator)
    assert (hosts, index) == (2, 0)
    assert other == (2, 1, (address, listener.getsockname()[1]), secret)


def test_without_a_route_a_host_is_found_by_its_name(monkeypatch):
    class NoWay(socket.socket):
        def connect(self, address):
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    monkeypatch.setattr(socket, "socket", NoWay)
    assert host_watch._own_address() == socket.gethostname()


def test_a_host_that_leaves_on_its_own_ends_even_if_its_output_is_closed(monkeypatch):
    class Closed:
        def flush(self):
            raise BrokenPipeError

    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Closed())
        host_watch._leave_alone()
    assert codes == [EXIT_CODE]
