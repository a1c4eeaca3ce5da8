"""Compiler options with which XLA takes half of the time: tests compile much and compute little."""

from importlib import metadata


def quick_flags(jax_version):
    """The value of `XLA_FLAGS` for a version of JAX; None for XLA in TensorFlow.

    XLA stops a process that names an option it does not know: JAX 0.12 no longer knows the second one, which 0.10 does.
    """
    known = jax_version is None or tuple(map(int, jax_version.split(".")[:2])) < (0, 11)
    return "--xla_backend_optimization_level=0" + known * " --xla_cpu_use_fusion_emitters=false"


def installed_jax():
    """The version of JAX, None if it is not installed."""
    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return None


QUICK = quick_flags(installed_jax())
