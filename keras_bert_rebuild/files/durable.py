"""Files that are on the disk when they are there."""

import os
from pathlib import Path


def sync(file):
    """Wait until what was written to an open file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path):
    """Wait until the names in a folder are on the disk, where the system can open a folder at all."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path, write):
    """Write a file beside its place and rename it, so that it is there whole, as it was, or not at all.

    Args:
        path: where the file shall be.
        write: a function of a binary file.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.writing")
    try:
        with partial.open("wb") as file:
            write(file)
            sync(file)
        os.replace(partial, path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)
