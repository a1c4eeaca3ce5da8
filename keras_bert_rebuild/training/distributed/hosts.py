"""The processes of a training on several hosts: how they join and exchange values."""

import atexit
import contextlib
import hashlib
import os
import sys
import time

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits

# The environment variables that `keras.distribution.initialize` reads for missing arguments.
ADDRESSES, COUNT, INDEX = (f"KERAS_DISTRIBUTION_{name}" for name in ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID"))


# The number of hosts, and this one's index, are those of a cluster that JAX knows.
AUTO = "auto"

# Seconds that host 0 waits for the others to end: without its service JAX aborts them before they can say why.
LAST = 10

# The exit code of a process whose training failed on its host, for example because another host stopped.
EXIT_CODE = 3


class DisagreementError(ValueError):
    """Hosts that train together have different settings; raised on all of them."""


def join_hosts(hosts=None, host_index=None, coordinator=None):
    """Join the other hosts of a training; do nothing if there is one host, or if the process has already joined.

    Missing arguments are read from the environment variables of `keras.distribution.initialize`; what they lack, JAX reads from
    Slurm, Kubernetes, Open MPI or a TPU pod.

    Args:
        hosts: number of processes that train together, usually one on each host; "auto" for as many as the cluster started.
        host_index: the index of this one, from 0.
        coordinator: `address:port`, a free port of host 0; the same on all hosts.

    Raises:
        ValueError: the arguments are inconsistent, the backend does not support several hosts, or the others do not answer.

    Reference: https://docs.jax.dev/en/latest/_autosummary/jax.distributed.initialize.html for the clusters.
    """
    is_auto = hosts == AUTO
    hosts = None if is_auto else _whole_number("hosts", hosts, COUNT)
    host_index = _whole_number("host_index", host_index, INDEX)
    coordinator = coordinator or os.environ.get(ADDRESSES)
    if hosts is None and (host_index is not None or coordinator is not None):
        got = f"{AUTO!r} beside" if is_auto else "only"
        raise ValueError(f"hosts must be the number of hosts; got {got} host_index={host_index}, coordinator={coordinator}.")
    if not is_auto:
        if hosts in (None, 1):
            return
        _check_numbers(hosts, host_index, coordinator)
    if not traits.has_several_hosts():
        backend = keras.config.backend()
        raise ValueError(f"several hosts must train with JAX; the backend is {backend}: set KERAS_BACKEND=jax.")
    import jax

    if jax.distributed.is_initialized():
        if not is_auto and hosts != jax.process_count():
            raise ValueError(f"hosts must be {jax.process_count()}, the number that this process has joined; got {hosts}.")
        return
    try:
        keras.distribution.initialize(coordinator, hosts, host_index)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        if is_auto:
            cluster = f"hosts={AUTO!r} must run under Slurm, Kubernetes, Open MPI or on a TPU pod; JAX could not join one here"
            raise ValueError(f"{cluster}: {reason}; elsewhere set hosts, host_index and coordinator.") from None
        raise ValueError(f"the {hosts} hosts of this training could not be joined: {reason}.") from None


def _check_numbers(hosts, host_index, coordinator):
    """Refuse a number of hosts, an index and an address that contradict each other."""
    if hosts < 1:
        raise ValueError(f"hosts must be at least 1; got {hosts}.")
    if host_index is not None and not 0 <= host_index < hosts:
        raise ValueError(f"host_index must be from 0 to {hosts - 1}, for {hosts} hosts; got {host_index}.")
    if coordinator is not None and host_index is None:
        raise ValueError(f"host_index must be set, the index among {hosts} hosts; got only the coordinator {coordinator}.")
    if coordinator is not None and not coordinator.split(",")[0].rpartition(":")[2].isdigit():
        raise ValueError(f"coordinator must be address:port, a free port of host 0; got {coordinator!r}.")


def host_count():
    """The number of hosts that train together."""
    if not traits.has_several_hosts():
        return 1
    import jax

    # `jax.process_count` initialises the devices, after which no process can join others.
    return jax.process_count() if jax.distributed.is_initialized() else 1


def host_index():
    """The index of this host; host 0 writes files."""
    if not traits.has_several_hosts():
        return 0
    import jax

    return jax.process_index() if jax.distributed.is_initialized() else 0


def gathered(values):
    """Whole numbers of every host; all hosts must call it at the same point.

    Args:
        values: a list of whole numbers, of the same length on every host.

    Returns:
        An int64 array `(hosts, numbers)`.
    """
    values = np.asarray(values, "int64")
    if host_count() == 1:
        return values[None]
    from jax.experimental import multihost_utils

    # As bytes: by default JAX has no int64.
    return np.asarray(multihost_utils.process_allgather(values.view("uint8"))).reshape(host_count(), -1).view("int64")


def check_agreement(values):
    """Raise an error if the values of a host differ from those of host 0; all hosts call this at the same point, with equal names.

    Args:
        values: the values that must be equal, by name; compared by their `repr`.

    Raises:
        DisagreementError: values differ; raised on all hosts.
    """
    digests = [hashlib.sha256(repr(value).encode()).digest()[:8] for value in values.values()]
    by_host = gathered(np.frombuffer(b"".join(digests), "int64"))
    same = (by_host == by_host[0]).all(axis=0)
    different = [f"{name} (here {value!r})" for (name, value), is_same in zip(values.items(), same, strict=True) if not is_same]
    if different:
        raise DisagreementError(f"all hosts must agree; they differ in {', '.join(different)}.")


@contextlib.contextmanager
def trained_together(ends_together=()):
    """Make all hosts of a training end when one stops; with one host it does nothing.

    Hosts whose training ends leave together. When a host stops in any other way, JAX ends the others: at once where a step notices
    a broken connection or host 0 is gone, else after 100 seconds without a heartbeat to `jax.distributed`. A process whose training
    failed does not wait for the others when it ends, and has the exit code `EXIT_CODE`.

    Args:
        ends_together: exceptions that are raised on all hosts.

    Raises:
        ConnectionError: a step failed, as it does if another host has stopped.

    Reference: https://docs.jax.dev/en/latest/_autosummary/jax.distributed.initialize.html for the heartbeats.
    """
    if host_count() == 1:
        yield
        return
    together = False
    try:
        yield
        together = True
    except ends_together:
        together = True
        raise
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ConnectionError(
            f"a step failed on host {host_index()} of {host_count()}, as it does if another host has stopped: {reason}; the same "
            "command on all hosts resumes from the last checkpoint."
        ) from error
    finally:
        if together:
            gathered([0])  # host 0 may still be writing
        else:
            atexit.register(_leave_alone)


def _leave_alone():
    """Exit at the end of a process whose training failed: JAX would wait for the others, for five minutes, and abort."""
    with contextlib.suppress(OSError, ValueError):  # the stream is closed
        sys.stdout.flush()
        sys.stderr.flush()
    if host_index() == 0 and host_count() > 2:
        time.sleep(LAST)
    os._exit(EXIT_CODE)


def whole_array(tensor):
    """A tensor as an array; if each host has only a part of it, all hosts must call it, in the same order."""
    if host_count() > 1:
        from jax.experimental import multihost_utils

        is_whole = tensor.is_fully_addressable or tensor.is_fully_replicated
        return np.asarray(tensor if is_whole else multihost_utils.process_allgather(tensor, tiled=True))
    if len(tensor.shape) == 0:  # NumPy cannot convert a scalar of MirroredStrategy
        return keras.ops.convert_to_numpy(keras.ops.reshape(tensor, (1,))).reshape(())
    return keras.ops.convert_to_numpy(tensor)


def _whole_number(name, value, variable):
    source = f" from {variable}" if value is None else ""
    value = os.environ.get(variable) if value is None else value
    try:
        return None if value is None else int(value)
    except ValueError:
        raise ValueError(f"{name} must be a whole number; got {value!r}{source}.") from None
