"""A folder that is there whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


@contextlib.contextmanager
def written_folder(path):
    """Write a folder beside its place and move it there in the end.

    Args:
        path: where the folder shall be; what else lies in a folder of that name is left alone.

    Yields:
        The path to write to. After an error it is removed, and `path` is as it was.

    Raises:
        ValueError: `path` is a file.
        OSError: the folder cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"expected a folder to write to; {path} is a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place: a rename across file systems is a copy.
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())
        if not path.exists():
            partial.rename(path)
            return
        for file in sorted(partial.iterdir()):
            os.replace(file, path / file.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
