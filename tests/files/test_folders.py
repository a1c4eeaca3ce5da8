"""A folder is replaced atomically, and none of the user's files is lost; results stay until the run has finished again."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert_rebuild.files import folders
from keras_bert_rebuild.files import folders as module
from keras_bert_rebuild.files.folders import folder_aside, written_again, written_folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def write(folder, replaced=()):
    with written_folder(folder, replaced) as partial:
        (partial / "config").write_text("new")
        (partial / "weights").write_text("new")


@pytest.fixture
def before(tmp_path):
    """A folder with a model and files of the user."""
    folder = tmp_path / "model"
    (folder / "notes" / "deep").mkdir(parents=True)
    for name in ("config", "weights", "old-shard", "README", "notes/deep/a"):
        (folder / name).write_text("old")
    (folder / "link").symlink_to("README")
    return folder


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_replaced_folder_has_the_files_of_the_user(before, monkeypatch, exchanges):
    if not exchanges:
        monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    write(before, replaced=("old-*",))
    expected = {"config": "new", "weights": "new", "README": "old", "link": "old", "notes/deep/a": "old"}
    assert contents(before) == expected
    assert os.readlink(before / "link") == "README"
    assert os.listdir(before.parent) == ["model"]


def test_files_of_the_user_are_copied_where_links_cannot_be_made(before, monkeypatch):
    def no_links(*_, **__):
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", no_links)
    write(before)
    assert contents(before)["notes/deep/a"] == "old"


def test_after_an_error_nothing_has_changed(before):
    found = contents(before)
    with contextlib.suppress(EOFError), written_folder(before) as partial:
        (partial / "config").write_text("new")
        raise EOFError
    assert contents(before) == found
    assert os.listdir(before.parent) == ["model"]


def test_a_folder_behind_a_link_is_replaced_and_the_link_stays(before):
    (before.parent / "door").symlink_to("model")
    write(before.parent / "door")
    assert (before.parent / "door").is_symlink()
    assert contents(before)["config"] == "new"


KILLED = """
import os, signal, sys
package = type(sys)("keras_bert_rebuild")
package.__path__ = [sys.argv[1]]
sys.modules["keras_bert_rebuild"] = package
from keras_bert_rebuild.files import folders
if sys.argv[4] == "renames":
    folders.exchange = lambda one, other: False
points = 0
def reach():
    global points
    points += 1
    if points == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
def stop_at(owner, name):
    function = getattr(owner, name)
    def called(*args, **options):
        reach()
        result = function(*args, **options)
        reach()
        return result
    setattr(owner, name, called)
stop_at(folders, "exchange")
for name in ("rename", "fsync", "unlink", "rmdir", "link"):
    stop_at(os, name)
with folders.written_folder(sys.argv[2], ("old-*",)) as partial:
    for name in ("config", "weights"):
        (partial / name).write_text("new")
"""


@pytest.mark.parametrize("how", ["exchange", "renames"])
@pytest.mark.slow(torch=True)
def test_killed_at_any_point_a_folder_is_old_or_new_and_never_mixed(before, how):
    package = Path(folders.__file__).parents[1]
    original, whole, limit, seen = contents(before), {"config": "new", "weights": "new"}, 0, set()
    whole |= {"README": "old", "link": "old", "notes/deep/a": "old"}
    while True:
        limit += 1
        done = subprocess.run([sys.executable, "-c", KILLED, package, before, str(limit), how], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        place = before if before.exists() else folder_aside(before)
        found = contents(place)
        assert found in (original, whole), limit
        seen.add((found == whole, place == before))
        if done.returncode == 0:
            break
        if found == whole:  # restart with the old one
            for name in ("config", "weights", "old-shard"):
                (before / name).write_text("old")
    assert limit > 15
    assert {(False, True), (True, True)} <= seen
    assert ((False, False) in seen) == (how == "renames")
    assert os.listdir(before.parent) == ["model"]  # the last run has removed the leftovers of the killed ones


@pytest.fixture
def run(tmp_path):
    (tmp_path / "model").mkdir()
    for name in ("model/weights", "report", "settings"):
        (tmp_path / name).write_text("first")
    return tmp_path


def train_again(run):
    with written_again(run) as place:
        (place / "model").mkdir()
        for name in ("model/weights", "report"):
            (place / name).write_text("second")


def test_the_new_results_replace_the_old_ones_at_the_end(run):
    train_again(run)
    assert contents(run) == {"model/weights": "second", "report": "second", "settings": "first"}


def test_an_error_leaves_the_old_results(run):
    before = contents(run)
    with contextlib.suppress(EOFError), written_again(run) as place:
        (place / "report").write_text("half")
        raise EOFError
    assert contents(run) == before


class Killed(BaseException):
    """Ends a process without any cleanup."""


@pytest.mark.parametrize("last", range(1, 5))
def test_a_kill_during_the_renames_is_completed(run, monkeypatch, last):
    calls = []

    def until_killed(function):
        def called(*args):
            calls.append(function)
            if len(calls) == last:
                raise Killed
            return function(*args)

        return called

    with monkeypatch.context() as patched:
        for name in ("rename", "replace"):
            patched.setattr(os, name, until_killed(getattr(os, name)))
        patched.setattr(module.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            train_again(run)
    module.settle(run)
    word = "first" if last == 1 else "second"
    assert contents(run) == {"model/weights": word, "report": word, "settings": "first"}
    assert not [name for name in os.listdir(run) if name.startswith(".")]
