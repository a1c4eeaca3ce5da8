"""The results of a finished run stay until the same run has finished again, wherever it is killed."""

import contextlib
import os

import pytest

from keras_bert_rebuild.files import written_again as module
from keras_bert_rebuild.files.written_again import written_again


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


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
