"""On which devices JAX computes, and how a kernel that XLA does not partition is divided over them."""

import contextlib

import jax
import keras
from jax.sharding import PartitionSpec

# The first generation of GPUs with products in bfloat16 and TF32.
AMPERE = 8.0

# The compute capability of a GPU that is absent but compiled for.
_absent = None


@contextlib.contextmanager
def compiling_for_cuda(capability):
    """Within it, programs are traced as on an NVIDIA GPU of this compute capability, on which nothing can run."""
    global _absent
    outer, _absent = _absent, capability
    try:
        yield
    finally:
        _absent = outer


def is_compiling_only():
    """Whether programs are compiled for a GPU that is absent."""
    return _absent is not None


def is_on_cuda(capability=0.0):
    """Whether this process computes, or compiles, for an NVIDIA GPU of at least this compute capability."""
    if _absent is not None:
        return _absent >= capability
    device = jax.local_devices()[0]
    return "cuda" in device.client.platform_version and float(device.compute_capability) >= capability


def is_on_processor():
    """Whether this process computes on a CPU, and does not compile for an absent GPU."""
    return _absent is None and jax.local_devices()[0].platform == "cpu"


def is_split_by_batch():
    """Whether a kernel that XLA does not partition may run: on one device, or on parts of a batch under a `DataParallel`."""
    return jax.device_count() == 1 or _data_parallel() is not None


def _data_parallel():
    distribution = keras.distribution.distribution()
    if distribution is None or distribution.num_model_replicas < distribution.device_mesh.devices.size:
        return None  # some devices compute a part of a replica
    return distribution


def over_devices(function, shared=0):
    """A function of arrays whose first axis is the batch; under a `DataParallel`, each device computes its part.

    A batch that cannot be divided over devices is computed as a whole: Keras calls layers with such shapes to infer output shapes.

    Args:
        function: a function of arrays, whose results have the batch as first axis, too.
        shared: how many arrays at the end have no batch, such as weights; every device gets all of them.
    """
    distribution = _data_parallel()
    if distribution is None:
        return function
    of_batch = PartitionSpec(distribution.batch_dim_name)
    mesh = distribution.device_mesh.backend_mesh

    def split(*arrays):
        if len(arrays[0]) % mesh.shape[distribution.batch_dim_name]:
            return function(*arrays)
        parts = (of_batch,) * (len(arrays) - shared) + (PartitionSpec(),) * shared
        return jax.shard_map(function, mesh=mesh, in_specs=parts, out_specs=of_batch, check_vma=False)(*arrays)

    return split
