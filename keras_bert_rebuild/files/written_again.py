"""What a run has left stays until the same run has finished again."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from keras_bert_rebuild.files.durable import naming_full_disk, sync_path
from keras_bert_rebuild.files.folders import sync_tree

# What is whole and has not taken its place, and what is being written.
WHOLE, PARTIAL = ".finished", ".again."


@contextlib.contextmanager
def written_again(folder):
    """Yield a folder in a folder; what is in it in the end takes the place of what has the same names there.

    For whoever holds the lock of the folder. Killed before the end, all is as it was; killed while names change, the next call of
    this function goes on with it.

    Raises:
        OSError: it cannot be written; of a full disk it says so.
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
    """Finish what a kill has interrupted: move what is whole, remove what is not."""
    folder = Path(folder)
    for entry in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(entry, ignore_errors=True)
    whole = folder / WHOLE
    if not whole.is_dir():
        return
    for entry in sorted(whole.iterdir()):
        place = folder / entry.name
        if not entry.is_dir():
            os.replace(entry, place)
            continue
        # No exchange: killed behind one, the next call could not tell the new from the old. Killed here, it finds the new one.
        if place.exists():
            os.rename(place, folder / f"{PARTIAL}{entry.name}.before")
        os.rename(entry, place)
    sync_path(folder)
    for entry in (whole, *folder.glob(f"{PARTIAL}*")):
        shutil.rmtree(entry, ignore_errors=True)
