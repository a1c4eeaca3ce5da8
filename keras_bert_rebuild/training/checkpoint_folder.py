"""A folder of checkpoints, each there whole or not at all."""

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
from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.files.locked import BusyError, acquire, release
from keras_bert_rebuild.training.array_file import write_arrays
from keras_bert_rebuild.training.checkpoint import ARRAYS, Checkpoint, read_checkpoint, write_facts
from keras_bert_rebuild.training.train_state import ArraySource

# A checkpoint, and the one that it takes the place of, which counts until it is there.
_NAME = re.compile(r"step-(\d{8,})|\.step-(\d{8,})\.replaced")


class CheckpointFolder:
    """Checkpoints of a training by step: the last ones and the best.

    A checkpoint is a folder `step-00001234` with `state.safetensors` and `facts.json`. It is written beside its place under a name
    that nobody reads, synced to the disk and renamed; only then are others deleted, again by a rename. So a kill or a loss of power
    at any moment leaves every checkpoint whole. What a killed process left half written is removed when the next one first saves;
    a folder that a process has saved to is its own until it ends, of which others that save there are told. Reading changes
    nothing.

    Args:
        path: of the folder; it is made when something is saved.
        keep: how many checkpoints stay, the newest of them; the one with the lowest score stays beside them.

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
        """The steps that there are checkpoints of, damaged ones too, from first to last."""
        return sorted(self._places())

    def save(self, step: int, arrays: Any, facts: Mapping[str, Any] | None = None, score: float | None = None) -> Checkpoint:
        """Write a checkpoint; afterwards delete those that need not be kept.

        Args:
            step: batches trained so far. A checkpoint of the same step is replaced.
            arrays: a dictionary from name to array, or a source with `names`, `shape(name)`, `dtype(name)` and `read(name)`, of
                which one array at a time is in memory.
            facts: a dictionary that JSON can hold, such as the position in the data.
            score: how good the weights are, less is better; None, or a number that is not finite, if nobody knows.

        Returns:
            The `Checkpoint`.

        Raises:
            OSError: it cannot be written, the disk being full for one, or another process saves to the folder. All other
                checkpoints are as they were.
            ValueError: there is an intact checkpoint of a later step, or an argument that cannot be written.
        """
        source = ArraySource(arrays) if isinstance(arrays, dict) else arrays
        place = self.path / f"step-{step:08d}"
        partial = self.path / f".{place.name}.writing"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim()
            self._clean(step)
            try:
                partial.mkdir()
                with (partial / ARRAYS).open("wb") as file:
                    sha256 = write_arrays(file, source)
                sync_path(partial / ARRAYS)
                write_facts(partial, step, sha256, facts or {}, score)
                sync_path(partial)
                self._put(partial, place)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except BusyError:
            raise
        except OSError as error:
            why = f"the checkpoint of step {step} could not be written to {self.path}, whose other checkpoints are as they were"
            raise OSError(error.errno, f"{why}: {error.strerror or error}") from error
        self._delete_others()
        return Checkpoint(place)

    def set_score(self, step: int, score: float) -> None:
        """Give a checkpoint the score of its weights, where that was known only later.

        Raises:
            ValueError: there is no such checkpoint, or it is damaged.
        """
        place = self._places().get(step)
        if place is None:
            raise ValueError(f"expected a checkpoint of step {step} in {self.path}; there are those of {self.steps()}.")
        checkpoint = Checkpoint(place)
        write_facts(place, step, checkpoint.sha256, checkpoint.facts, score)

    def newest(self) -> Checkpoint | None:
        """The last checkpoint that is whole, or None in an empty folder. A damaged one is named in a warning and passed over.

        Raises:
            ValueError: there are checkpoints and all of them are damaged: to begin anew is for you to decide.
        """
        places = self._places()
        return self._first_intact([places[step] for step in sorted(places, reverse=True)])

    def best(self) -> Checkpoint | None:
        """The whole checkpoint with the lowest score, the later one of two, or None if none has a score.

        Raises:
            ValueError: all that have one are damaged.
        """
        scored = sorted(self._scores().items(), key=lambda item: (item[1], -item[0]))
        places = self._places()
        return self._first_intact([places[step] for step, _ in scored])

    def _first_intact(self, places):
        for place in places:
            try:
                return read_checkpoint(place)
            except ValueError as error:
                warnings.warn(f"the checkpoint {place} is skipped, and the one before it is loaded: {error}", stacklevel=3)
        if places:
            raise ValueError(f"expected a whole checkpoint in {self.path}; all are damaged: {', '.join(p.name for p in places)}.")
        return None

    def _places(self):
        """The folder of every step."""
        names = [(_NAME.fullmatch(entry.name), entry) for entry in self.path.iterdir()] if self.path.is_dir() else []
        found = [(match[1] is not None, int(match[1] or match[2]), entry) for match, entry in names if match and entry.is_dir()]
        return {step: entry for _, step, entry in sorted(found)}  # the replaced first, so that its successor counts

    def _scores(self):
        scores = {}
        for step, place in self._places().items():
            with contextlib.suppress(ValueError):  # of one that is damaged nobody knows
                score = Checkpoint(place).score
                if is_number(score):
                    scores[step] = score
        return scores

    def _put(self, partial, place):
        replaced = self.path / f".{place.name}.replaced"
        if place.exists():
            self._delete(replaced)
            os.rename(place, replaced)
        os.rename(partial, place)
        sync_path(self.path)
        self._delete(replaced)

    def _delete_others(self):
        places, scores = self._places(), self._scores()
        kept = set(sorted(places)[-self.keep :])
        if scores:
            kept.add(min(scores, key=lambda step: (scores[step], -step)))
        for step, place in places.items():
            if step not in kept:
                self._delete(place)

    def _delete(self, place):
        """Delete a folder such that a kill leaves no half of it under its name."""
        if place.exists():
            gone = self.path / f".{place.name.strip('.')}.deleted"
            os.rename(place, gone)
            shutil.rmtree(gone)

    def _claim(self):
        """Before the first save: take the lock, for as long as this is there."""
        if self._lock is None:
            self._lock = acquire(self.path / ".lock", self.path)
            if self._lock is not None:
                weakref.finalize(self, release, self._lock)

    def _clean(self, step):
        """Before the first save: away with what killed processes left and with damaged checkpoints of later steps."""
        if self._cleaned:
            return
        for entry in self.path.glob(".step-*"):
            if entry.suffix in (".writing", ".deleted"):
                shutil.rmtree(entry)
        places = self._places()
        for entry in self.path.glob(".step-*.replaced"):
            if entry not in places.values():
                self._delete(entry)
        later = [places[number] for number in sorted(places, reverse=True) if number > step]
        whole = [place for place in later if _is_whole(place)]
        if whole:
            raise ValueError(f"expected a step after that of {whole[0]}, the newest checkpoint; got step {step} to save.")
        for place in later:
            self._delete(place)
        self._cleaned = True


def _is_whole(place):
    try:
        read_checkpoint(place)
    except ValueError:
        return False
    return True
