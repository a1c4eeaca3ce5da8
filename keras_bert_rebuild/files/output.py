"""The rule for outputs, checked before work begins.

An existing output is only replaced if it is of the writer's own kind and the caller asks for it. It is never an input, under any
name, nor inside a folder that is read. The suffix of a file decides its format. Commands hold the lock of their output from the
check to the end, so that of two runs the second gets an error that names the first.
"""

import contextlib
import os
import stat
from pathlib import Path

from keras_bert_rebuild.files.durable import naming_full_disk, remove_leftovers
from keras_bert_rebuild.files.folders import put_back
from keras_bert_rebuild.files.kinds import folder_kind, names_in_the_way, visible_names
from keras_bert_rebuild.files.locked import lock_file, locked

REPLACES = "--overwrite (in Python overwrite=True) replaces it"


def check_file(path, kind, inputs=(), overwrite=True):
    """Refuse a file that may not be written.

    Args:
        path: the file.
        kind: a `FileKind`.
        inputs: paths that are read; None entries are ignored.
        overwrite: whether an existing file of the same kind is replaced.

    Raises:
        ValueError: the output may not be written.
    """
    path = Path(path)
    if path.suffix.lower() not in kind.suffixes:
        ends = ", ".join(suffix or "nothing" for suffix in kind.suffixes)
        raise ValueError(f"the output must be {kind.what}, a file whose name ends in {ends}; got {path}.")
    if path.is_dir():
        raise ValueError(f"the output must be a file; {path} is a folder.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"No such folder to write to: {path.parent}; the output {path.name} must be in an existing folder.")
    _check_apart(path, inputs)
    if not os.path.lexists(path):
        return
    if not path.exists() or not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"the output must be a file; {path} is a broken link, a pipe or a device.")
    if not kind.is_one(path):
        raise ValueError(f"{path} exists and is not {kind.what}, so it is not replaced: choose another output.")
    if not overwrite:
        raise ValueError(f"{path} exists already: choose another output, or {REPLACES}.")


def check_folder(path, kind, inputs=(), overwrite=True):
    """Refuse a folder that may not be written; arguments and errors as for `check_file`, with a `FolderKind`.

    Contents of an existing folder that the writer does not write are carried over: see `written_folder`.
    """
    path = Path(path)
    _check_place(path, inputs)
    if not path.is_dir() or not visible_names(path):
        return
    present = folder_kind(path)
    if present is not None and present is not kind:
        raise ValueError(f"{path} holds {present.what} and not {kind.what}, so it is not replaced: choose another output.")
    if present is None and (in_the_way := names_in_the_way(path, kind)):
        raise ValueError(f"{path} holds {in_the_way[0]} and is not {kind.what}, so it is not replaced: choose another output.")
    if not overwrite:
        raise ValueError(f"{path} holds {present.what if present else 'files'} already: choose another output, or {REPLACES}.")


def check_run(path, kind, inputs=()):
    """Refuse the folder of a run that may not be resumed: it must be new, empty or of the kind; otherwise see `check_file`."""
    path = Path(path)
    _check_place(path, inputs)
    unowned = set(visible_names(path)).difference(names_in_the_way(path, kind)) if path.is_dir() else ()
    present = folder_kind(path) if unowned else None
    if present is not None and present is not kind:
        raise ValueError(f"{path} holds {present.what} and not {kind.what}: choose another output.")
    if unowned and present is None:
        raise ValueError(f"the output must be an empty folder or hold {kind.what}; {path} holds {min(unowned)}.")


def check_own(path, names, own, manifest):
    """Refuse to replace files and folders in a folder that its own manifest does not name.

    Args:
        path: the folder, which need not exist.
        names: the names to write.
        own: those that the manifest names.
        manifest: name of the manifest, for the error.

    Raises:
        ValueError: there is such a file or folder.
    """
    in_the_way = sorted({*names} & {*(visible_names(path) if os.path.isdir(path) else ())} - {*own})
    if in_the_way:
        raise ValueError(
            f"{path} holds {in_the_way[0]}, which its {manifest} does not name, so it is not replaced: choose another output."
        )


@contextlib.contextmanager
def claimed_file(path, kind, inputs=(), overwrite=True):
    """Check a file, hold its lock for the duration of the block, and fail early if it cannot be written at all."""
    check_file(path, kind, inputs, overwrite)
    path = Path(path)
    with naming_full_disk(path), locked(lock_file(path), path) as has_lock:
        if has_lock:
            remove_leftovers(path)
        check_file(path, kind, inputs, overwrite)  # another run may have ended in between
        yield path


@contextlib.contextmanager
def claimed_folder(path, kind, inputs=(), overwrite=True):
    """As `claimed_file`, for a folder that is swapped in as a whole."""
    check_folder(path, kind, inputs, overwrite)
    target = Path(os.path.realpath(path))
    if target.is_dir() and os.path.ismount(target):
        raise ValueError(f"expected a folder that can be replaced as a whole; {path} is a mount point: choose a folder inside it.")
    with _parents_of(target), naming_full_disk(path), locked(lock_file(target), path) as has_lock:
        if has_lock:
            put_back(target)
            remove_leftovers(target)
        check_folder(path, kind, inputs, overwrite)  # another run may have ended in between
        yield Path(path)


@contextlib.contextmanager
def claimed_run(path, kind, inputs=()):
    """As `claimed_file`, for a folder written in place and resumed: the lock is inside, since the folder above may be read-only."""
    check_run(path, kind, inputs)
    path = Path(path)
    lock = path / ".lock"
    with _parents_of(lock), naming_full_disk(path), locked(lock, path):
        yield path


@contextlib.contextmanager
def _parents_of(path):
    """Make the folders above a path, and at the end remove those that are still empty."""
    made = []
    for folder in reversed(path.parents):
        if not folder.exists():
            with contextlib.suppress(FileExistsError):  # another run was faster
                folder.mkdir()
                made.append(folder)
    try:
        yield
    finally:
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def _check_place(path, inputs):
    """Refuse a path where no folder can be, or that is or has an input."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"expected a folder to write to; {path} is a file.")
    above = next((folder for folder in path.parents if folder.exists()), None)
    if above is not None and not above.is_dir():
        raise NotADirectoryError(f"expected a folder to write to; {above}, above {path}, is a file.")
    _check_apart(path, inputs)


def _check_apart(path, inputs):
    """Refuse an output that is an input, inside one or around one, under any name: files are compared, not names."""
    target = Path(os.path.realpath(path))
    for source in inputs:
        if source is None:
            continue
        above = Path(os.path.realpath(source)).parents  # also of a prefix, which is not the name of a file
        if path.is_dir() and any(folder.exists() and os.path.samefile(folder, path) for folder in above):
            raise ValueError(f"the output must not contain the input; {source} is inside {path}.")
        if not os.path.exists(source):
            continue
        if target.exists() and os.path.samefile(target, source):
            raise ValueError(f"the output must not be the input; {path} is {source}.")
        inside = os.path.isdir(source) and any(above.exists() and os.path.samefile(above, source) for above in target.parents)
        if inside:
            raise ValueError(f"the output must be outside {source}, which is read; {path} is inside it.")
