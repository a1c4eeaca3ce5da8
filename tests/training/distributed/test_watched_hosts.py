"""What host 0 sends to the others before they watch each other, and how a host leaves on its own."""

import errno
import os
import socket
import sys

import numpy as np
import pytest

from keras_bert_rebuild.training.distributed import watched_hosts
from keras_bert_rebuild.training.distributed.host_watch import EXIT_CODE

LONG = "worker-0." + "a-name-of-a-cluster." * 11 + "local"


@pytest.fixture
def watches(monkeypatch):
    """Takes a coordinator and returns the watch arguments of two hosts, created one after the other in this process."""
    made, said = [], []

    def gathered(values):
        said.append(values)
        return np.stack([said[0], values])

    monkeypatch.setattr(watched_hosts, "gathered", gathered)
    monkeypatch.setattr(watched_hosts, "host_count", lambda: 2)
    monkeypatch.setattr(watched_hosts, "HostWatch", lambda *given: made.append(given))

    def of(coordinator):
        for index in range(2):
            monkeypatch.setattr(watched_hosts, "host_index", lambda index=index: index)
            watched_hosts._watch(coordinator)
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
    assert watched_hosts._own_address() == socket.gethostname()


def test_a_host_that_leaves_on_its_own_ends_even_if_its_output_is_closed(monkeypatch):
    class Closed:
        def flush(self):
            raise BrokenPipeError

    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", Closed())
        watched_hosts._leave_alone()
    assert codes == [EXIT_CODE]
