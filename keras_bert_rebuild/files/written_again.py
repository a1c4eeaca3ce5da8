"""The results of a run stay until the same run has finished again."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from keras_bert_rebuild.files.durable import naming_full_disk, sync_path
from keras_bert_rebuild.files.folders import sync_tree

# The names of a complete folder that has not been moved yet, and of one that is being written.
WHOLE, PARTIAL = ".finished", ".again."


@contextlib.contextmanager
def written_again(folder):
    """Yield a folder in a folder; in the end its contents replace those of the same names.

    The caller holds the lock of the folder. After a kill before the end, nothing has changed; after a kill during the renames, the
    next call of this function completes them.

    Raises:
        OSError: it cannot be written; the error names a full disk.
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
    """Finish what a kill has interrupted: move what is complete, remove what is not."""
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
        # No exchange: after a kill just after it, the next call could not tell the new from the old. After a kill here, it can.
        if target.exists():
            os.rename(target, folder / f"{PARTIAL}{entry.name}.before")
        os.rename(entry, target)
    sync_path(folder)
    for entry in (whole, *folder.glob(f"{PARTIAL}*")):
        shutil.rmtree(entry, ignore_errors=True)
