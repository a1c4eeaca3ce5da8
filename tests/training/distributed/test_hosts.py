"""The settings with which a host joins others, and what the hosts agree on."""

import keras
import numpy as np
import pytest

from keras_bert_rebuild.training.distributed.hosts import check_agreement, gathered, host_count, host_index, join_hosts, whole_array

ENVIRONMENT = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID")
IS_JAX = keras.config.backend() == "jax"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("told", [{}, {"hosts": 1}, {"hosts": 1, "host_index": 0, "coordinator": "a:1"}])
def test_one_host_joins_nobody(told):
    join_hosts(**told)
    assert (host_count(), host_index()) == (1, 0)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"host_index": 1}, "hosts must be set, the number of hosts; got only host_index=1"),
        ({"coordinator": "a:1"}, "hosts must be set, the number of hosts; .* coordinator=a:1"),
        ({"hosts": 0}, "hosts must be at least 1; got 0"),
        ({"hosts": 2, "host_index": 2}, "host_index must be from 0 to 1, for 2 hosts; got 2"),
        ({"hosts": 2, "host_index": -1}, "host_index must be from 0 to 1, for 2 hosts; got -1"),
        ({"hosts": 2, "coordinator": "a:1"}, "host_index must be set, the index among 2 hosts"),
        ({"hosts": 2, "host_index": 0, "coordinator": "a"}, "coordinator must be address:port, a free port of host 0; got 'a'"),
        ({"hosts": "two"}, r"hosts must be a whole number; got 'two'\.$"),
    ],
)
def test_inconsistent_settings_are_reported_in_a_sentence(told, sentence):
    with pytest.raises(ValueError, match=sentence):
        join_hosts(**told)


def test_an_invalid_number_is_reported_with_its_environment_variable(monkeypatch):
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "two")
    with pytest.raises(ValueError, match="hosts must be a whole number; got 'two' from KERAS_DISTRIBUTION_NUM_PROCESSES"):
        join_hosts()


@pytest.mark.skipif(IS_JAX, reason="JAX can")
def test_several_hosts_are_refused_with_the_backend_that_supports_them(monkeypatch):
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "2")
    monkeypatch.setenv("KERAS_DISTRIBUTION_PROCESS_ID", "0")
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", "a:1,b:1")
    with pytest.raises(ValueError, match=r"several hosts must train with JAX; .*: set KERAS_BACKEND=jax"):
        join_hosts()


def test_a_host_alone_agrees_with_itself():
    assert gathered([3, 2**40]).tolist() == [[3, 2**40]]
    check_agreement({"seed": 1})


def test_hosts_that_differ_are_told_the_difference(monkeypatch):
    from keras_bert_rebuild.training.distributed import hosts

    monkeypatch.setattr(hosts, "gathered", lambda values: np.stack([values, np.add(values, [0, 1])]))
    with pytest.raises(ValueError, match=r"all hosts must agree; they differ in seed \(here 7\)\."):
        check_agreement({"steps": 3, "seed": 7})


def test_an_array_is_read_whole_whatever_its_shape():
    for value in (3.0, [1.0, 2.0]):
        assert whole_array(keras.Variable(np.array(value, "float32")).value).tolist() == value
