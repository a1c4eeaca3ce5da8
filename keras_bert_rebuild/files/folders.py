"""Atomic folders: written next to the target and swapped in, or moved into a run's own folder."""

import contextlib
import ctypes
import errno
import fnmatch
import os
import shutil
import sys
import tempfile
from pathlib import Path

from keras_bert_rebuild.files.durable import naming_full_disk, partial_folder, remove_leftovers, sync_path, umask
from keras_bert_rebuild.files.locked import lock_file, locked, short_name

_HERE = -100  # AT_FDCWD of Linux
_EXCHANGE, _SWAP = 2, 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def exchange(one, other):
    """Exchange the names of two files or folders of one file system, atomically.

    Returns:
        Whether it succeeded: not all systems and file systems support it.

    Raises:
        OSError: it is not permitted.
    """
    names = os.fsencode(one), os.fsencode(other)
    system = ctypes.CDLL(None, use_errno=True) if sys.platform in ("linux", "darwin") else None
    if hasattr(system, "renameat2"):
        failed = system.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif hasattr(system, "renamex_np"):
        failed = system.renamex_np(*names, _SWAP)
    else:
        return False
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))


@contextlib.contextmanager
def written_folder(path, replaced=()):
    """Write a folder under a temporary name and swap it in at the end.

    The new folder is on disk before the swap, which is atomic on Linux and macOS. Elsewhere it is two renames; a kill between them
    leaves the old folder under the name that `folder_aside` returns, and the next writer restores it.

    Args:
        path: path of the folder; other contents of an existing folder of that name are carried over...
        replaced: ...except files and folders that match these patterns (with `*`), which belong to the replaced content.

    Yields:
        The path to write to. After an error it is removed, and `path` is unchanged.

    Raises:
        ValueError: `path` is a file.
        BusyError: another run is writing the folder.
        OSError: writing fails; a full disk is reported as such.
    """
    path = Path(os.path.realpath(path))  # swap the target of a link, not the link
    if path.exists() and not path.is_dir():
        raise ValueError(f"expected a folder to write to; {path} is a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming_full_disk(path), locked(lock_file(path), path) as has_lock:
        if has_lock:
            put_back(path)
            remove_leftovers(path)
        partial = partial_folder(path)
        try:
            yield partial
            partial.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o777 & ~umask())
            if path.exists():
                _carry_over(path, partial, replaced)
            sync_tree(partial)
            _swap(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def folder_aside(path):
    """The name of the old folder between the two renames of a swap."""
    path = Path(os.path.realpath(path))
    return path.with_name(f".{short_name(path.name)}.replaced")


def put_back(path):
    """Undo the first of the two renames if a kill prevented the second; the caller holds the lock of the path."""
    aside = folder_aside(path)
    if aside.is_dir() and not aside.is_symlink():
        if path.exists():
            shutil.rmtree(aside)
        else:
            os.rename(aside, path)


def sync_tree(path):
    """Flush a folder and everything in it to disk."""
    for folder, _, files in os.walk(path):
        for name in files:
            file = os.path.join(folder, name)
            if not os.path.islink(file):
                sync_path(file)
        sync_path(folder)


def _carry_over(path, partial, replaced):
    """Hard-link the other contents of the old folder into the new one, or copy them if links are not supported."""
    written = {entry.name for entry in os.scandir(partial)}
    for entry in os.scandir(path):
        if entry.name in written or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in replaced):
            continue
        target = partial / entry.name
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir():
            shutil.copytree(entry.path, target, symlinks=True, copy_function=link_or_copy)
        else:
            link_or_copy(entry.path, target)


def link_or_copy(source, target, *, follow_symlinks=True):
    """Give a file a second name, or copy it where hard links are not supported; a link is made again."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    try:
        os.link(source, target)
    except OSError:  # no hard links, or another file system mounted in the folder
        shutil.copy2(source, target)


def _swap(partial, path):
    if not path.exists():
        os.rename(partial, path)
    elif not exchange(partial, path):
        aside = folder_aside(path)
        os.rename(path, aside)
        os.rename(partial, path)
        sync_path(path.parent)
        shutil.rmtree(aside, ignore_errors=True)
    sync_path(path.parent)


# The name of a complete folder that has not been moved yet, and of one that is being written.
WHOLE, PARTIAL = ".finished", ".again."


@contextlib.contextmanager
def written_again(folder):
    """Yield a temporary folder inside a folder; at the end its contents replace those of the same names.

    The caller holds the lock of the folder. After a kill before the end, nothing has changed; after a kill during the renames, the
    next call completes them.
    Raises:
        OSError: writing fails; a full disk is reported as such.
    """
    folder = Path(folder)
    settle(folder)
    with naming_full_disk(folder):
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder))
        try:
            yield partial
            sync_tree(partial)
            os.rename(partial, folder / WHOLE)
            sync_path(folder)
            settle(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def settle(folder):
    """Finish an update that a kill interrupted: move what is complete, remove what is not."""
    folder = Path(folder)
    for entry in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(entry, ignore_errors=True)
    whole = folder / WHOLE
    if not whole.is_dir():
        return
    for entry in sorted(whole.iterdir()):
        target = folder / entry.name
        if not entry.is_dir():
            os.replace(entry, target)
            continue
        # Renamed, not exchanged: after a kill right after an exchange, the next call could not tell new from old.
        if target.exists():
            os.rename(target, folder / f"{PARTIAL}{entry.name}.before")
        os.rename(entry, target)
    sync_path(folder)
    for entry in (whole, *folder.glob(f"{PARTIAL}*")):
        shutil.rmtree(entry, ignore_errors=True)
