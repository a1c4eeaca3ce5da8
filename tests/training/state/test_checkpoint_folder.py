"""Checkpoints on disk: whole or absent, the right ones retained, damage found."""

import errno
import json
import os
import shutil

import ml_dtypes
import numpy as np
import pytest

from keras_bert_rebuild.training.state.checkpoint import read_checkpoint
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder

pytestmark = pytest.mark.backend

ARRAYS = {
    "a/kernel": np.arange(6, dtype="float32").reshape(2, 3),
    "b": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "count": np.array(7, "int64"),
    "empty": np.zeros((0, 3), "float32"),
}


def names_in(folder):
    """The files of a folder except the lock, which exists while a process saves."""
    return [name for name in os.listdir(folder) if not name.startswith(".lock")]


def arrays_of(checkpoint):
    source = checkpoint.arrays()
    return {name: source.read(name) for name in source.names}


def saved(path, steps, **kwargs):
    folder = CheckpointFolder(path, **kwargs)
    for step in steps:
        folder.save(step, {"step": np.array(step)})
    return folder


def flip(path, position=-1):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_saved_checkpoints_are_read(tmp_path):
    facts = {"position": {"epoch": 2, "batch": 17}, "pair": (1, 2)}
    CheckpointFolder(tmp_path / "run").save(12, ARRAYS, facts, score=0.5)
    newest = CheckpointFolder(tmp_path / "run").newest()
    assert (newest.step, newest.score, newest.path.name) == (12, 0.5, "step-00000012")
    assert newest.facts == {"position": {"epoch": 2, "batch": 17}, "pair": [1, 2]}
    assert {"backend", "keras", "keras_bert_rebuild", "numpy"} <= newest.versions.keys()
    read = arrays_of(newest)
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype
        assert np.array_equal(read[name], array)


def test_the_safetensors_library_reads_the_arrays(tmp_path):
    from safetensors.numpy import load_file

    CheckpointFolder(tmp_path).save(1, ARRAYS)
    read = load_file(tmp_path / "step-00000001" / "state.safetensors")
    assert {name: array.tobytes() for name, array in read.items()} == {name: array.tobytes() for name, array in ARRAYS.items()}


def test_one_array_at_a_time_is_read_to_be_written(tmp_path):
    alive = []

    class Array(np.ndarray):
        def __del__(self):
            alive.remove(1)

    class Source:
        names = tuple("abcde")

        def shape(self, name):
            return (3,)

        def dtype(self, name):
            return "float32"

        def read(self, name):
            alive.append(1)
            assert len(alive) <= 2  # the array that was just written may not be freed yet
            return np.zeros(3, "float32").view(Array)

    try:
        CheckpointFolder(tmp_path).save(1, Source())
    finally:
        Array.__del__ = lambda self: None


def test_an_empty_folder_has_no_checkpoint_and_reading_makes_none(tmp_path):
    folder = CheckpointFolder(tmp_path / "run")
    assert (folder.newest(), folder.best(), folder.steps()) == (None, None, [])
    assert not (tmp_path / "run").exists()


def test_the_last_and_the_best_are_retained(tmp_path):
    folder = CheckpointFolder(tmp_path, keep=2)
    for step, score in ((1, 3.0), (2, 1.0), (3, 2.0), (4, None), (5, float("nan")), (6, 1.5)):
        folder.save(step, ARRAYS, score=score)
    assert folder.steps() == [2, 5, 6]
    assert (folder.best().step, folder.newest().step) == (2, 6)
    assert folder.newest().score == 1.5
    assert sorted(names_in(tmp_path)) == ["step-00000002", "step-00000005", "step-00000006"]


def test_a_score_may_be_added_later(tmp_path):
    folder = saved(tmp_path, [1, 2], keep=1)
    folder.set_score(2, 0.25)
    assert CheckpointFolder(tmp_path).best().score == 0.25
    with pytest.raises(ValueError, match=r"expected a checkpoint of step 1 in .*; it has the steps \[2\]"):
        folder.set_score(1, 0.5)


def test_old_checkpoints_are_deleted_only_after_the_new_one_is_written(tmp_path, monkeypatch):
    folder = saved(tmp_path, [1], keep=1)
    seen = []
    rename = os.rename

    def watched(source, target):
        rename(source, target)
        seen.append(folder.steps())

    monkeypatch.setattr(os, "rename", watched)
    folder.save(2, ARRAYS)
    assert seen == [[1, 2], [2]]


@pytest.mark.parametrize("damage", ["bit", "cut", "gone", "facts", "facts gone", "facts cut", "other step"])
def test_a_damaged_newest_checkpoint_is_named_and_the_previous_one_is_used(tmp_path, damage):
    folder = saved(tmp_path, [10, 20])
    place = tmp_path / "step-00000020"
    arrays, facts = place / "state.safetensors", place / "facts.json"
    if damage == "bit":
        flip(arrays)
    elif damage == "cut":
        arrays.write_bytes(arrays.read_bytes()[:-3])
    elif damage == "gone":
        arrays.unlink()
    elif damage == "facts":
        facts.write_text(facts.read_text().replace('"facts": {}', '"facts": {"epoch": 3}'))
    elif damage == "facts gone":
        facts.unlink()
    elif damage == "facts cut":
        facts.write_text(facts.read_text()[:40])
    else:
        facts.write_text((tmp_path / "step-00000010" / "facts.json").read_text())
    with pytest.warns(UserWarning, match=r"the checkpoint .*step-00000020 is skipped: ") as warned:
        newest = folder.newest()
    assert len(warned) == 1
    assert newest.step == 10


def test_any_flipped_bit_is_found(tmp_path, rng):
    folder = saved(tmp_path, [10, 20])
    for name in ("state.safetensors", "facts.json"):
        path = tmp_path / "step-00000020" / name
        whole = path.read_bytes()
        for position in rng.integers(0, len(whole.rstrip()), 25):
            flip(path, position)
            with pytest.warns(UserWarning, match="step-00000020 is skipped: "):
                assert folder.newest().step == 10
            path.write_bytes(whole)
    assert folder.newest().step == 20


def test_a_run_with_only_damaged_checkpoints_does_not_restart_by_itself(tmp_path):
    folder = saved(tmp_path, [10])
    flip(tmp_path / "step-00000010" / "state.safetensors")
    with (
        pytest.warns(UserWarning, match="step-00000010 is skipped: "),
        pytest.raises(ValueError, match=r"expected an intact checkpoint .* step-00000010"),
    ):
        folder.newest()


def test_a_checkpoint_may_be_retained_under_another_name(tmp_path):
    saved(tmp_path, [10])
    shutil.copytree(tmp_path / "step-00000010", tmp_path / "before-the-change")
    assert read_checkpoint(tmp_path / "before-the-change").step == 10


def test_a_damaged_best_checkpoint_is_skipped(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step, score in ((1, 1.0), (2, 2.0), (3, 3.0)):
        folder.save(step, ARRAYS, score=score)
    flip(tmp_path / "step-00000001" / "state.safetensors")
    with pytest.warns(UserWarning, match="step-00000001 is skipped: "):
        assert folder.best().step == 2


def test_a_run_that_resumed_before_a_damaged_checkpoint_overwrites_it(tmp_path):
    saved(tmp_path, [10, 20, 30], keep=5)
    for step in (20, 30):
        flip(tmp_path / f"step-{step:08d}" / "state.safetensors")
    folder = CheckpointFolder(tmp_path, keep=5)
    folder.save(20, ARRAYS)
    assert folder.steps() == [10, 20]
    assert folder.newest().step == 20


def test_saving_before_a_later_whole_checkpoint_is_refused(tmp_path):
    saved(tmp_path, [10, 20])
    with pytest.raises(ValueError, match=r"expected a step after the newest checkpoint, .*step-00000020; got step 5"):
        CheckpointFolder(tmp_path).save(5, ARRAYS)
    assert CheckpointFolder(tmp_path).steps() == [10, 20]


@pytest.mark.parametrize("where", ["write", "sync", "rename"])
def test_a_full_disk_leaves_the_others_and_nothing_else(tmp_path, monkeypatch, where):
    folder = saved(tmp_path, [10])

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if where == "write":
        monkeypatch.setattr("keras_bert_rebuild.training.state.checkpoint_folder.write_arrays", full)
    else:
        monkeypatch.setattr(os, {"sync": "fsync", "rename": "rename"}[where], full)
    with pytest.raises(OSError, match=r"the checkpoint of step 20 could not be written to .*: No space left on device") as error:
        folder.save(20, ARRAYS)
    assert error.value.errno == errno.ENOSPC
    assert names_in(tmp_path) == ["step-00000010"]
    monkeypatch.undo()
    folder.save(20, ARRAYS)
    assert folder.newest().step == 20


def test_a_kill_at_any_system_call_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    """Every call that changes the disk is once the last one of a process; then a new process reads and continues."""

    class Killed(BaseException):
        pass

    calls = ("rename", "replace", "fsync", "mkdir")
    real = {name: getattr(os, name) for name in calls}
    rmtree = shutil.rmtree

    def run(path, after):
        """Save a checkpoint over one of the same step, killed after a number of calls; returns whether it finished."""
        left = [after]

        def dying(name):
            def call(*args, **kwargs):
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return real[name](*args, **kwargs)

            return call

        def dying_rmtree(*args, **kwargs):
            if left[0] <= 0:
                raise Killed  # a killed process does not clean up
            left[0] -= 1
            rmtree(*args, **kwargs)

        with monkeypatch.context() as patched:
            for name in calls:
                patched.setattr(os, name, dying(name))
            patched.setattr(shutil, "rmtree", dying_rmtree)
            patched.setattr("keras_bert_rebuild.files.durable.Path.unlink", lambda *args, **kwargs: None)
            try:
                CheckpointFolder(path, keep=1).save(20, {"new": np.ones(3)})
            except Killed:
                return False
        return True

    for after in range(40):
        path = tmp_path / str(after)
        CheckpointFolder(path, keep=1).save(20, {"old": np.zeros(3)})
        ended = run(path, after)
        newest = CheckpointFolder(path).newest()
        assert newest.step == 20
        assert newest.arrays().names in (["old"], ["new"])
        CheckpointFolder(path, keep=1).save(30, ARRAYS)
        assert names_in(path) == ["step-00000030"]
        if ended:
            break
    assert 5 < after < 39


def test_the_leftovers_of_killed_writers_are_removed_by_saving_and_not_by_reading(tmp_path):
    folder = saved(tmp_path, [10])
    for name in (".step-00000020.writing", ".step-00000005.deleted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.safetensors").write_bytes(b"half")
    assert CheckpointFolder(tmp_path).newest().step == 10
    assert len(names_in(tmp_path)) == 3
    folder = CheckpointFolder(tmp_path)
    folder.save(20, ARRAYS)
    assert sorted(names_in(tmp_path)) == ["step-00000010", "step-00000020"]


def test_facts_that_are_not_json_are_an_error_and_leave_nothing(tmp_path):
    folder = saved(tmp_path, [10])
    with pytest.raises(ValueError, match="expected facts that JSON can encode"):
        folder.save(20, ARRAYS, {"position": object()})
    with pytest.raises(ValueError, match=r"expected an array of .* to write; x has complex64"):
        folder.save(20, {"x": np.zeros(2, "complex64")})
    assert names_in(tmp_path) == ["step-00000010"]


def test_wrong_arguments_are_reported(tmp_path):
    with pytest.raises(ValueError, match="keep must be at least 1 checkpoint; got 0"):
        CheckpointFolder(tmp_path, keep=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="expected a folder of checkpoints"):
        CheckpointFolder(tmp_path / "file")


def test_the_facts_are_readable_json(tmp_path):
    saved(tmp_path, [10])
    facts = json.loads((tmp_path / "step-00000010" / "facts.json").read_text())
    assert set(facts) == {"step", "score", "sha256", "facts", "versions", "sha256_of_facts"}
