"""The memory that is available to this process, and whether the outputs of a prediction fit into it."""

import math
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np

CGROUP = Path("/sys/fs/cgroup")


def available_bytes():
    """Bytes of main memory that are available without swapping; None if the system does not report it."""
    limits = [n for n in (_machine_bytes(), _cgroup_bytes()) if n is not None]
    return min(limits, default=None)


def check_prediction_fits(outputs: Any, x: Any, batch_size: int | None = None, steps: int | None = None) -> None:
    """Refuse a prediction that would fill the memory, before it starts.

    Args:
        outputs: the symbolic outputs of the model.
        x: the inputs, arrays in any structure.
        batch_size, steps: as for `predict`.

    Raises:
        MemoryError: the outputs do not fit; the error says how much memory is needed and available.
    """
    arrays = [value for value in keras.tree.flatten(x) if hasattr(value, "shape")]
    if not arrays or not arrays[0].shape:
        return
    examples = arrays[0].shape[0]
    if steps is not None:
        examples = min(examples, steps * (batch_size or 32))
    length = max((array.shape[1] for array in arrays if len(array.shape) > 1), default=1)
    shapes = [(examples, *(length if n is None else n for n in output.shape[1:])) for output in outputs]
    needed = sum(math.prod(shape) * _item_size(output) for shape, output in zip(shapes, outputs, strict=True))
    available = available_bytes()
    if available is not None and needed > available:
        shown = " and ".join(str(shape) for shape in shapes)
        raise MemoryError(
            f"predict would return arrays of shape {shown}, {needed / 1e9:.1f} GB, but only {available / 1e9:.1f} GB of memory "
            "are free: predict fewer examples at a time, or only the outputs you need."
        )


def _machine_bytes():
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _cgroup_bytes():
    limit, used, kinds = (CGROUP / f"memory.{name}" for name in ("max", "current", "stat"))
    if not (limit.exists() and used.exists() and kinds.exists()):
        return None
    limit = limit.read_text().strip()
    if limit == "max":
        return None
    # The file cache counts as used, but is freed if the memory is needed.
    counts = (line.split() for line in kinds.read_text().splitlines())
    files = sum(int(count) for kind, count in counts if kind in ("active_file", "inactive_file"))
    return max(int(limit) - int(used.read_text()) + files, 0)


def _item_size(tensor):
    name = keras.backend.standardize_dtype(tensor.dtype)
    return {"bfloat16": 2}.get(name) or np.dtype(name).itemsize
