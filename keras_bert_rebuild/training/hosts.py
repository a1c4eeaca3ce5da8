"""The processes of a training that runs on several hosts: how one joins the others, and what they tell each other."""

import hashlib
import os

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits

# Where `keras.distribution.initialize` looks for what it is not told.
ADDRESSES, COUNT, INDEX = (f"KERAS_DISTRIBUTION_{name}" for name in ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID"))


class DisagreementError(ValueError):
    """Hosts that are to train together have different things to do; raised on all of them."""


def join_hosts(hosts=None, host_index=None, coordinator=None):
    """Join the other hosts of a training; nothing where there is one host, or where the process has joined them already.

    What is not given is taken from `keras.distribution.initialize`'s variables of the environment; where the number of hosts is
    known and the rest is not, JAX finds it out on Cloud TPU, Slurm and Open MPI.

    Args:
        hosts: how many processes train together, one a host.
        host_index: the number of this one, from 0 on.
        coordinator: `address:port`, a free port of host 0; the same on all hosts.

    Raises:
        ValueError: the three do not fit together, the backend cannot do it, or the other hosts do not answer.
    """
    hosts = _whole_number("hosts", hosts, COUNT)
    host_index = _whole_number("host_index", host_index, INDEX)
    coordinator = coordinator or os.environ.get(ADDRESSES)
    if hosts is None and (host_index is not None or coordinator is not None):
        raise ValueError(f"hosts must say how many there are; got host_index={host_index}, coordinator={coordinator} alone.")
    if hosts in (None, 1):
        return
    if hosts < 1:
        raise ValueError(f"hosts must be at least 1; got {hosts}.")
    if host_index is not None and not 0 <= host_index < hosts:
        raise ValueError(f"host_index must be from 0 to {hosts - 1}, for {hosts} hosts; got {host_index}.")
    if coordinator is not None and host_index is None:
        raise ValueError(f"host_index must say which of the {hosts} hosts this is; got the coordinator {coordinator} alone.")
    if coordinator is not None and not coordinator.split(",")[0].rpartition(":")[2].isdigit():
        raise ValueError(f"coordinator must be address:port, a free port of host 0; got {coordinator!r}.")
    if not traits.has_several_hosts():
        backend = keras.config.backend()
        raise ValueError(f"several hosts train together on JAX alone; the backend is {backend}: set KERAS_BACKEND=jax.")
    from keras_bert_rebuild.training.jax_hosts import jax_join

    jax_join(coordinator, hosts, host_index)


def host_count():
    """How many hosts train together."""
    if not traits.has_several_hosts():
        return 1
    from keras_bert_rebuild.training.jax_hosts import jax_host_count

    return jax_host_count()


def host_index():
    """The number of this host; host 0 writes what is written."""
    if not traits.has_several_hosts():
        return 0
    from keras_bert_rebuild.training.jax_hosts import jax_host_index

    return jax_host_index()


def gathered(values):
    """Whole numbers of every host, asked for by all of them at the same point.

    Args:
        values: a list of whole numbers, as many on every host.

    Returns:
        An int64 array `(hosts, numbers)`.
    """
    values = np.asarray(values, "int64")
    if host_count() == 1:
        return values[None]
    from keras_bert_rebuild.training.jax_hosts import jax_gathered

    # As bytes: JAX has no int64 unless it is told to.
    return jax_gathered(values.view("uint8")).view("int64")


def check_agreement(values):
    """Refuse that a host has something else than host 0; all hosts ask at the same point, with the same names.

    Args:
        values: what must be the same, by name; anything that prints all there is to it.

    Raises:
        DisagreementError: a host has something else, on all hosts.
    """
    digests = [hashlib.sha256(repr(value).encode()).digest()[:8] for value in values.values()]
    of_all = gathered(np.frombuffer(b"".join(digests), "int64"))
    same = (of_all == of_all[0]).all(axis=0)
    others = [f"{name} (here {value!r})" for (name, value), is_same in zip(values.items(), same, strict=True) if not is_same]
    if others:
        raise DisagreementError(f"all hosts must agree; they differ in {', '.join(others)}.")


def whole_array(tensor):
    """A tensor as an array; where each host has only a part of it, all of them must ask for it, in the same order."""
    if host_count() > 1:
        from keras_bert_rebuild.training.jax_hosts import jax_whole_array

        return jax_whole_array(tensor)
    if len(tensor.shape) == 0:  # NumPy makes no array of a single number that MirroredStrategy holds
        return keras.ops.convert_to_numpy(keras.ops.reshape(tensor, (1,))).reshape(())
    return keras.ops.convert_to_numpy(tensor)


def _whole_number(name, value, variable):
    source = f" from {variable}" if value is None else ""
    value = os.environ.get(variable) if value is None else value
    try:
        return None if value is None else int(value)
    except ValueError:
        raise ValueError(f"{name} must be a whole number; got {value!r}{source}.") from None
