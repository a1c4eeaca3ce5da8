"""A folder that is there whole or not at all."""

import contextlib
import fnmatch
import os
import shutil
import tempfile
from pathlib import Path


@contextlib.contextmanager
def written_folder(path, replaced=()):
    """Write a folder beside its place and move it there in the end.

    Args:
        path: where the folder shall be; what else lies in a folder of that name is left alone...
        replaced: ...but for files of these names, patterns with `*`, which would be read beside the new ones.

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
        written = sorted(file.name for file in partial.iterdir())
        for name in written:
            os.replace(partial / name, path / name)
        for name in {file.name for file in path.iterdir()}.difference(written):
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in replaced):
                (path / name).unlink()
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
