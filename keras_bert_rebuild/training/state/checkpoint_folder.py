"""A folder of checkpoints, each written atomically."""

import contextlib
import os
import re
import shutil
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.durable import sync_path
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.locked import BusyError, acquire, release
from keras_bert_rebuild.training.state.checkpoint import ARRAYS, Checkpoint, read_checkpoint, write_arrays, write_facts
from keras_bert_rebuild.training.state.train_state import ArraySource

# Names of a checkpoint, and of a replaced one, which is valid until its successor exists.
_NAME = re.compile(r"step-(\d{8,})|\.step-(\d{8,})\.replaced")


class CheckpointFolder:
    """The newest checkpoints of a training and the best one.

    A checkpoint is a folder `step-00001234` with `state.safetensors` and `facts.json`. It is written under a temporary name in the
    same folder, synced to disk and renamed; only then are others deleted, again by renaming first. A kill or a power failure at any
    moment therefore leaves every checkpoint intact. Partial files of a killed process are removed at the first save of the next
    one. A process that has saved to a folder locks it until it ends: saving from another process is an error. Reading changes
    nothing.

    Args:
        path: the folder; it is created when something is saved.
        keep: number of the newest checkpoints to retain, besides the one with the lowest score.

    Raises:
        ValueError: `keep` is less than 1, or `path` is a file.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1 checkpoint; got {keep}.")
        self.path = Path(path)
        self.keep = keep
        self._cleaned = False
        self._lock = None
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"expected a folder of checkpoints; {self.path} is a file.")

    def steps(self) -> list[int]:
        """The steps of all checkpoints, including damaged ones, in ascending order."""
        return sorted(self._folders())

    def save(self, step: int, arrays: Any, facts: Mapping[str, Any] | None = None, score: float | None = None) -> Checkpoint:
        """Write a checkpoint, then delete those that are not retained.

        Args:
            step: number of batches trained so far. A checkpoint of the same step is replaced.
            arrays: a dictionary from name to array, or a source with `names`, `shape(name)`, `dtype(name)` and `read(name)`, which
                is read one array at a time.
            facts: a dictionary that JSON can encode, such as the position in the data.
            score: the score of the weights, lower is better; None, or a number that is not finite, if it is unknown.

        Returns:
            The `Checkpoint`.

        Raises:
            OSError: it cannot be written, for example because the disk is full or another process saves to the folder. All other
                checkpoints are unchanged.
            ValueError: there is an intact checkpoint of a later step, or an argument cannot be saved.
        """
        source = ArraySource(arrays) if isinstance(arrays, dict) else arrays
        folder = self.path / f"step-{step:08d}"
        partial = self.path / f".{folder.name}.writing"
        self.claim(step)
        with self._described(step):
            try:
                partial.mkdir()
                with (partial / ARRAYS).open("wb") as file:
                    sha256 = write_arrays(file, source)
                sync_path(partial / ARRAYS)
                write_facts(partial, step, sha256, facts or {}, score)
                sync_path(partial)
                self._put(partial, folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        self._delete_others()
        return Checkpoint(folder)

    def claim(self, step: int) -> None:
        """Lock the folder and remove partial files of killed processes, as the first `save` does.

        Args:
            step: number of batches trained so far.

        Raises:
            OSError, ValueError: as for `save`.
        """
        with self._described(step):
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim()
            self._clean(step)

    @contextlib.contextmanager
    def _described(self, step):
        """Add to an error of the system which checkpoint was not written."""
        try:
            yield
        except BusyError:
            raise
        except OSError as error:
            why = f"the checkpoint of step {step} could not be written to {self.path}, whose other checkpoints are unchanged"
            raise OSError(error.errno, f"{why}: {error.strerror or error}") from error

    def set_score(self, step: int, score: float) -> None:
        """Set the score of a checkpoint that was saved without it.

        Raises:
            ValueError: there is no such checkpoint, or it is damaged.
        """
        folder = self._folders().get(step)
        if folder is None:
            raise ValueError(f"expected a checkpoint of step {step} in {self.path}; it has the steps {self.steps()}.")
        checkpoint = Checkpoint(folder)
        write_facts(folder, step, checkpoint.sha256, checkpoint.facts, score)

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint, or None in an empty folder. Damaged ones are skipped with a warning.

        Raises:
            ValueError: there are checkpoints and all of them are damaged; whether to restart is the user's decision.
        """
        folders = self._folders()
        return self._first_intact([folders[step] for step in sorted(folders, reverse=True)])

    def best(self) -> Checkpoint | None:
        """The intact checkpoint with the lowest score, the newest of equal ones; None if none has a score.

        Raises:
            ValueError: all checkpoints with a score are damaged.
        """
        scored = sorted(self._scores().items(), key=lambda item: (item[1], -item[0]))
        folders = self._folders()
        return self._first_intact([folders[step] for step, _ in scored])

    def _first_intact(self, folders):
        for folder in folders:
            try:
                return read_checkpoint(folder)
            except ValueError as error:
                warnings.warn(f"the checkpoint {folder} is skipped: {error}", stacklevel=3)
        if folders:
            raise ValueError(
                f"expected an intact checkpoint in {self.path}; all are damaged: {', '.join(p.name for p in folders)}."
            )
        return None

    def _folders(self):
        """The folder of every step."""
        names = [(_NAME.fullmatch(entry.name), entry) for entry in self.path.iterdir()] if self.path.is_dir() else []
        folders = [(match[1] is not None, int(match[1] or match[2]), entry) for match, entry in names if match and entry.is_dir()]
        return {step: entry for _, step, entry in sorted(folders)}  # replaced ones first, so that their successors win

    def _scores(self):
        scores = {}
        for step, folder in self._folders().items():
            with contextlib.suppress(ValueError):  # a damaged one has no known score
                score = Checkpoint(folder).score
                if is_number(score):
                    scores[step] = score
        return scores

    def _put(self, partial, folder):
        replaced = self.path / f".{folder.name}.replaced"
        if folder.exists():
            self._delete(replaced)
            os.rename(folder, replaced)
        os.rename(partial, folder)
        sync_path(self.path)
        self._delete(replaced)

    def _delete_others(self):
        folders, scores = self._folders(), self._scores()
        retained = set(sorted(folders)[-self.keep :])
        if scores:
            retained.add(min(scores, key=lambda step: (scores[step], -step)))
        for step, folder in folders.items():
            if step not in retained:
                self._delete(folder)

    def _delete(self, folder):
        """Delete a folder so that a kill leaves no partial one under its name."""
        if folder.exists():
            gone = self.path / f".{folder.name.strip('.')}.deleted"
            os.rename(folder, gone)
            shutil.rmtree(gone)

    def _claim(self):
        """Take the lock before the first save, for the lifetime of this object."""
        if self._lock is None:
            self._lock = acquire(self.path / ".lock", self.path)
            if self._lock is not None:
                weakref.finalize(self, release, self._lock)

    def _clean(self, step):
        """Before the first save, delete partial files of killed processes and damaged checkpoints of later steps."""
        if self._cleaned:
            return
        for entry in self.path.glob(".step-*"):
            if entry.suffix in (".writing", ".deleted"):
                shutil.rmtree(entry)
        folders = self._folders()
        for entry in self.path.glob(".step-*.replaced"):
            if entry not in folders.values():
                self._delete(entry)
        later = [folders[number] for number in sorted(folders, reverse=True) if number > step]
        intact = [folder for folder in later if _is_intact(folder)]
        if intact:
            raise ValueError(f"expected a step after the newest checkpoint, {intact[0]}; got step {step} to save.")
        for folder in later:
            self._delete(folder)
        self._cleaned = True


def _is_intact(folder):
    try:
        read_checkpoint(folder)
    except ValueError:
        return False
    return True
