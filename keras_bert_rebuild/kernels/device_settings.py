"""Process-wide settings of the running backend, made by commands: precision of matrix products, cache of compiled programs.

Importing the library changes none of them.
"""

import os
import stat
import sys
from pathlib import Path

import keras

# Precision of float32 matrix products on hardware with a faster mode, such as TF32 on GPUs (10 mantissa bits instead of 23).
# "highest" is float32; "high" is TF32 on a GPU and three bfloat16 products on a TPU; "default" is the backend's default.
MATMUL_PRECISIONS = ("default", "high", "highest")

# A flag of XLA, and the releases of JAX that have been seen to know it.
CUBLAS_ALONE, CUBLAS_ALONE_IN = "--xla_gpu_enable_triton_gemm=false", ("0.10", "0.11")

# A setting of JAX, in capitals also an environment variable.
THREEFRY_KERNEL = "jax_threefry_gpu_kernel_lowering"


def set_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products in this process. Has no effect on a CPU.

    Args:
        precision: one of `MATMUL_PRECISIONS`.

    Raises:
        ValueError: the name is unknown.
    """
    if precision not in MATMUL_PRECISIONS:
        raise ValueError(f"the precision of matrix products must be one of {', '.join(MATMUL_PRECISIONS)}; got {precision!r}.")
    backend = keras.config.backend()
    if precision == "default":
        return
    if backend == "jax":
        import jax

        jax.config.update("jax_default_matmul_precision", precision)
    elif backend == "torch":
        import torch

        torch.set_float32_matmul_precision(precision)
    elif backend == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(precision == "high")


def keep_compiled_programs(folder: Path | None = None) -> str | None:
    """Let JAX cache its compiled programs in a folder, for later processes; other backends have no such cache.

    A folder that the user set for JAX (`JAX_COMPILATION_CACHE_DIR`) is used, unless one is given here. Programs in the folder are
    run as they are, so it must belong to the user and be writable for nobody else; it is created with these permissions. Otherwise
    no folder is used. An address such as gs://bucket, which JAX also takes, has no such permissions and is used.

    Args:
        folder: the folder; None for `JAX_COMPILATION_CACHE_DIR`, or else `cache_folder()`.

    Returns:
        Why programs are not cached, in a few words; None if they are, or if the backend has no cache.
    """
    named = os.environ.get("JAX_COMPILATION_CACHE_DIR") if folder is None else None
    if keras.config.backend() != "jax" or "://" in (named or ""):
        return None
    try:
        folder = Path(folder or named or cache_folder())
        reason = _unusable(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder
        reason = f"{folder or 'the cache folder'}: {getattr(error, 'strerror', None) or error}"
    if reason is not None:
        keep_no_programs()
    elif not named:  # that one JAX uses already, with the user's other settings
        import jax

        jax.config.update("jax_compilation_cache_dir", str(folder))
        # By default JAX does not cache programs that compile in less than a second: 38 programs (2 of 12 s) of a short fine-tuning.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return reason


def _unusable(folder):
    """Why programs in a folder, which is made if it is missing, may not be run; None if they may."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} is not writable"
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return f"{folder} belongs to another user or can be written by others"
    return None


def keep_no_programs() -> None:
    """Disable JAX's cache of compiled programs, whatever `JAX_COMPILATION_CACHE_DIR` says."""
    if keras.config.backend() == "jax":
        import jax

        jax.config.update("jax_enable_compilation_cache", False)


def compile_quickly() -> None:
    """Let JAX compile less for an NVIDIA GPU, for runs that are short.

    Matrix products come from cuBLAS alone, if nothing has been compiled yet. Otherwise XLA also compiles Triton's kernels for every
    product and measures which is fastest: 14 of the 34 seconds that a short fine-tuning compiled on an H100
    (`benchmarks/RESULTS.md`). A value in `XLA_FLAGS` stays. In other releases of JAX than `CUBLAS_ALONE_IN` nothing is set, since
    JAX ends the process over a flag that it does not know.

    The same random bits are drawn by JAX's own kernel, instead of 20 rounds that are compiled wherever a layer draws some: a
    quarter of the operations of a training step. A value in `JAX_THREEFRY_GPU_KERNEL_LOWERING` stays.
    """
    if keras.config.backend() != "jax":
        return
    import jax

    flags = os.environ.get("XLA_FLAGS", "")
    if CUBLAS_ALONE.split("=")[0] not in flags and jax.__version__.rpartition(".")[0] in CUBLAS_ALONE_IN:
        os.environ["XLA_FLAGS"] = f"{flags} {CUBLAS_ALONE}".strip()
    if THREEFRY_KERNEL.upper() not in os.environ and hasattr(jax.config, THREEFRY_KERNEL):
        jax.config.update(THREEFRY_KERNEL, True)


def cache_folder() -> Path:
    """The folder of compiled programs in the user's cache folder: `~/.cache/keras-bert/jax`, or the equivalent of the system."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "keras-bert" / "Cache" / "jax"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "keras-bert" / "jax"
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "keras-bert" / "jax"
