"""JAX only: the processes of a training that runs on several hosts."""

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils


def jax_join(coordinator, hosts, host_index):
    """Join the other hosts, once in the life of a process.

    Raises:
        ValueError: they cannot be joined, or others have been joined.
    """
    if jax.distributed.is_initialized():
        if hosts != jax.process_count():
            raise ValueError(f"hosts must be {jax.process_count()}, as many as this process has joined before; got {hosts}.")
        return
    try:
        keras.distribution.initialize(coordinator, hosts, host_index)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ValueError(f"the {hosts} hosts of this training could not be joined: {reason}.") from None


def jax_host_count():
    """How many processes train together."""
    # To be asked, JAX takes its devices, behind which no process can join others.
    return jax.process_count() if jax.distributed.is_initialized() else 1


def jax_host_index():
    """The number of this process."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def jax_gathered(values):
    """An array of every process, stacked in their order."""
    return np.asarray(multihost_utils.process_allgather(values)).reshape(jax.process_count(), -1)


def jax_whole_array(array):
    """An array whose parts lie on several processes; from all of them where this one does not have it all."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))
