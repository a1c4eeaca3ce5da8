"""Settings of the running backend that a command makes for its process: exactness of products, compiled programs.

Importing the library makes none of them.
"""

import os
import stat
import sys
from pathlib import Path

import keras

# How exactly matrices of float32 are multiplied where the hardware has a faster way, as GPUs have TF32 with 10 bits after the point
# where float32 has 23. "highest" is float32; "high" is TF32 on a GPU and three products of bfloat16 on a TPU; "default" is what the
# backend does.
MATMUL_PRECISIONS = ("default", "high", "highest")


def set_matmul_precision(precision: str) -> None:
    """Say how exactly matrices of float32 are multiplied in this process. On a processor it changes nothing.

    Args:
        precision: one of `MATMUL_PRECISIONS`.

    Raises:
        ValueError: an unknown name.
    """
    if precision not in MATMUL_PRECISIONS:
        raise ValueError(f"the precision of products must be one of {', '.join(MATMUL_PRECISIONS)}; got {precision!r}.")
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
    """Let JAX keep its compiled programs in a folder, for later processes; other backends compile nothing that could be kept.

    A folder that the user named to JAX (`JAX_COMPILATION_CACHE_DIR`) stays, unless one is given here. A program from the folder is
    run as it is, so it must belong to the user and be writable for nobody else; it is created so.

    Args:
        folder: None for that of `JAX_COMPILATION_CACHE_DIR`, or else `cache_folder()`.

    Returns:
        Why programs are not kept, in a few words; None if they are, or if the backend has none.
    """
    if keras.config.backend() != "jax" or (folder is None and os.environ.get("JAX_COMPILATION_CACHE_DIR")):
        return None
    try:
        folder = cache_folder() if folder is None else folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"{folder} is not writable"
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder
        return f"{folder or 'the cache folder'}: {getattr(error, 'strerror', None) or error}"
    if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return f"{folder} belongs to another user or can be written by others"
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    # JAX leaves out what compiles in less than a second: of a short fine-tuning 38 programs, 2 of 12 seconds.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return None


def keep_no_programs() -> None:
    """Let JAX keep no compiled programs, and fetch none, whatever `JAX_COMPILATION_CACHE_DIR` says."""
    if keras.config.backend() == "jax":
        import jax

        jax.config.update("jax_enable_compilation_cache", False)


def cache_folder() -> Path:
    """The folder of compiled programs in the cache folder of the user: `~/.cache/keras-bert/jax`, or what the system has for it."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "keras-bert" / "Cache" / "jax"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "keras-bert" / "jax"
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "keras-bert" / "jax"
