"""JAX only: the processes of a training on several hosts."""

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils


def jax_join(coordinator, hosts, host_index):
    """Join the other hosts, once in a process.

    Raises:
        ValueError: the hosts cannot be joined, or another number of hosts has been joined already.
    """
    if jax.distributed.is_initialized():
        if hosts != jax.process_count():
            raise ValueError(f"hosts must be {jax.process_count()}, the number that this process has joined; got {hosts}.")
        return
    try:
        keras.distribution.initialize(coordinator, hosts, host_index)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ValueError(f"the {hosts} hosts of this training could not be joined: {reason}.") from None


def jax_host_count():
    """The number of processes that train together."""
    # `jax.process_count` initialises the devices, after which no process can join others.
    return jax.process_count() if jax.distributed.is_initialized() else 1


def jax_host_index():
    """The index of this process."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def jax_gathered(values):
    """An array of every process, stacked in their order."""
    return np.asarray(multihost_utils.process_allgather(values)).reshape(jax.process_count(), -1)


def jax_whole_array(array):
    """An array whose parts are on several processes, gathered unless this process has all of it."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))
