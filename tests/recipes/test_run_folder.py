"""The folder of a run: its settings, the commit, its curve, and what it logs to other programs."""

import os
import re
import subprocess
import sys
import types
import xml.etree.ElementTree as ElementTree

import keras
import pytest

from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.recipes.metrics_table import (
    MetricsTable,
    _ticks,
    draw_curves,
    read_curves,
)
from keras_bert_rebuild.recipes.run_folder import RunFolder, git_revision, versions
from keras_bert_rebuild.recipes.run_log import RunLog


def test_settings_and_every_start_are_recorded(tmp_path):
    assert not RunFolder(tmp_path / "run", {"seed": 1, "workers": 1}).resumes
    assert RunFolder(tmp_path / "run", {"seed": 1, "workers": 2}).resumes
    assert read_yaml(tmp_path / "run" / "settings.yaml") == {"seed": 1, "workers": 2}
    assert [start["backend"] for start in read_yaml(tmp_path / "run" / "versions.yaml")["starts"]] == [keras.config.backend()] * 2


def test_a_run_of_a_version_without_a_switch_resumes_while_it_is_off(tmp_path):
    RunFolder(tmp_path / "run", {"seed": 1})
    with pytest.raises(ValueError, match="switch was None and is True"):
        RunFolder(tmp_path / "run", {"seed": 1, "switch": True})
    assert RunFolder(tmp_path / "run", {"seed": 1, "switch": False}).resumes


def test_a_folder_of_other_files_is_not_written_to(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"expected an empty folder or the folder of a run; .* holds other files"):
        RunFolder(tmp_path, {"seed": 1})
    with pytest.raises(ValueError, match=r"expected a folder for the run; .*letter\.txt is a file\."):
        RunFolder(tmp_path / "letter.txt", {"seed": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_versions_name_the_packages_and_the_revision(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert versions()["keras"] == keras.__version__
    assert versions()["git"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: [", "must be YAML in UTF-8"),
        (b"\xff", "must be YAML in UTF-8"),
        (b"- seed", "must hold names and values; got list"),
        ("seed: 1".encode("utf-16"), "begins like UTF-16"),
        (b"a: &a [1]\nb: *a", "anchors and aliases are not read, and line 1 has 'a'"),
        (b"[" * 40 + b"]" * 40, "must have at most 32 levels; got 33"),
        (b"seed: " + b"9" * 5000, "must be YAML with plain values"),
        (b"seed: 2026-13-40", "must be YAML with plain values: month must be in"),
        (None, "; it does not exist"),
    ],
)
def test_a_file_that_holds_no_settings_is_one_sentence(tmp_path, content, message):
    if content is not None:
        (tmp_path / "s.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_yaml(tmp_path / "s.yaml")
    assert "s.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_devices_of_every_start_are_noted(tmp_path):
    for devices in (1, 8):
        RunFolder(tmp_path / "run", {"seed": 1, "distribute": str(devices)}, {"devices": devices})
    starts = read_yaml(tmp_path / "run" / "versions.yaml")["starts"]
    assert [start["devices"] for start in starts] == [1, 8]


def test_malformed_versions_are_one_sentence(tmp_path):
    RunFolder(tmp_path, {"seed": 1})
    (tmp_path / "versions.yaml").write_text("starts: 3")
    with pytest.raises(ValueError, match=r"versions.yaml must hold a list of starts; got int"):
        RunFolder(tmp_path, {"seed": 1})


# The commit of a folder is read without running any program of the folder.


NAME = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def git(folder, *arguments):
    done = subprocess.run(["git", "-C", folder, *NAME, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A folder with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "f").write_text("1")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "f")
    git(folder, "commit", "-qm", "first")
    return folder


def test_the_commit_equals_that_of_git_on_a_branch_detached_packed_and_in_a_worktree(repository, tmp_path):
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "sub").mkdir()
    assert git_revision(repository) == git_revision(repository / "sub") == commit
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert git_revision(repository) == commit
    git(repository, "worktree", "add", "-q", "-b", "other/branch", tmp_path / "tree")
    git(tmp_path / "tree", "commit", "-q", "--allow-empty", "-m", "second")
    assert git_revision(tmp_path / "tree") == git(tmp_path / "tree", "rev-parse", "HEAD") != commit
    git(repository, "checkout", "-q", "--detach")
    assert git_revision(repository) == commit


def test_no_program_that_a_repository_names_is_run(repository, tmp_path, monkeypatch):
    mark = tmp_path / "ran"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", hook)
    for part in ("clean", "smudge", "process"):
        git(repository, "config", f"filter.evil.{part}", hook)
    git(repository, "config", "core.pager", hook)
    git(repository, "config", "alias.status", f"!{hook}")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    os.utime(repository / "f", (1, 1))
    monkeypatch.chdir(repository)
    assert versions()["git"] == git_revision()
    assert len(git_revision()) == 40
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("HEAD", b"ref: refs/heads/../../../secret\n"),
        ("HEAD", b"ref: /etc/passwd\n"),
        ("HEAD", b"\xff\xfe"),
        ("HEAD", b"ref: refs/heads/" + b"a" * 100_000),
        ("HEAD", b"a secret of forty letters, as long as it\n"),
        ("HEAD", b"ref: refs/heads/\0"),
        ("HEAD", b"ref: refs/heads/" + b"a" * 300),
        ("refs/heads/main", b"not a commit"),
        ("commondir", b"nowhere"),
        ("commondir", b"\0"),
    ],
)
def test_unusual_git_files_give_no_commit(repository, name, content):
    (repository / ".git" / name).write_bytes(content)
    assert git_revision(repository) is None


def test_a_pipe_instead_of_a_file_does_not_block(repository):
    head = repository / ".git" / "HEAD"
    head.unlink()
    os.mkfifo(head)
    assert git_revision(repository) is None
    head.unlink()
    assert git_revision(repository) is None


def test_a_file_without_a_folder_name_gives_no_commit(tmp_path):
    for content in ("gitdir: /nowhere", "something", ""):
        (tmp_path / ".git").write_text(content)
        assert git_revision(tmp_path) is None


# The curve on disk continues where the run resumes, and TensorBoard and the picture show its numbers.


COLUMNS = ("step", "loss", "accuracy")


def test_rows_are_on_disk_at_once_and_missing_numbers_stay_empty(tmp_path):
    table = MetricsTable(tmp_path / "m.csv", COLUMNS)
    table.write({"step": 5, "loss": 1 / 3})
    assert (tmp_path / "m.csv").read_text() == "step,loss,accuracy\n5,0.333333,\n"


def test_a_resumed_run_drops_rows_after_its_step_and_half_a_row(tmp_path):
    table = MetricsTable(tmp_path / "m.csv", COLUMNS)
    for step in (2, 4, 6):
        table.write({"step": step, "loss": 1.0, "accuracy": 0.5})
    with (tmp_path / "m.csv").open("a") as file:
        file.write("8,0.")
    MetricsTable(tmp_path / "m.csv", COLUMNS, step=4).write({"step": 5})
    assert (tmp_path / "m.csv").read_text() == "step,loss,accuracy\n2,1,0.5\n4,1,0.5\n5,,\n"


def test_a_table_with_other_columns_is_an_error(tmp_path):
    (tmp_path / "m.csv").write_text("step,f1\n1,2\n")
    with pytest.raises(ValueError, match=r"expected the columns step, loss, accuracy; .*m\.csv has step, f1\."):
        MetricsTable(tmp_path / "m.csv", COLUMNS)


TABLE = """step,phase,learning_rate,loss,held_out_loss,tokens_per_second
10,1,0.001,8.5,,1000
20,1,0.0005,6.5,6.75,nan
30,1,0.0001,6,,1200
40,1,0.00"""


def test_points_are_read_without_those_that_were_not_measured(tmp_path):
    (tmp_path / "metrics.csv").write_text(TABLE, encoding="utf-8")
    curves = read_curves(tmp_path)
    assert curves["loss"] == [(10, 8.5), (20, 6.5), (30, 6)]
    assert curves["held_out_loss"] == [(20, 6.75)]
    assert curves["tokens_per_second"] == [(10, 1000), (30, 1200)]


def test_lines_go_through_the_points(tmp_path):
    (tmp_path / "metrics.csv").write_text(TABLE, encoding="utf-8")
    svg = draw_curves(read_curves(tmp_path), "a <run>")
    tree = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert [text.text for text in tree.iter(f"{space}text") if text.get("class") == "title"] == [
        "a <run>",
        "Loss",
        "Learning rate",
        "Tokens per second",
    ]
    (line,) = [path.get("d") for path in tree.iter(f"{space}path") if path.get("class") == "a"]
    (x0, y0), (x1, y1), (x2, y2) = [tuple(map(float, point.split())) for point in re.split("[ML]", line)[1:]]
    assert (x2 - x1) == pytest.approx(x1 - x0, abs=0.2)
    assert (y1 - y0) / (y2 - y0) == pytest.approx(2 / 2.5, abs=0.01)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (6, 8.5), (1e-5, 1e-3), (3, 3), (0, 0), (-2, 7), (999, 1001)])
def test_ticks_are_round_numbers_around_the_values(low, high):
    ticks = _ticks(low, high)
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-12
    assert 2 <= len(ticks) <= 7


def test_a_folder_without_a_run_is_reported(tmp_path):
    with pytest.raises(ValueError, match=r"expected the metrics\.csv of a run; .*metrics\.csv does not exist"):
        read_curves(tmp_path)
    (tmp_path / "metrics.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="it has the columns a, b"):
        read_curves(tmp_path)
    (tmp_path / "metrics.csv").write_text("step,loss\n1,two\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2: loss must be a number; got 'two'"):
        read_curves(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'step,loss\n1,"2\n', "line 2 is not: unexpected end of data"),
        (b"step,loss\n1,\xff\n", "line 2 is not, at byte 12 of the file"),
        (b"step,loss\n,2\n", "line 2: step must be a whole number; got ''"),
        (b"step,loss\n1,2\nx,2\n", "line 3: step must be a number; got 'x'"),
        (b"step,loss\n1e400,2\n", "line 2: step must be a whole number; got '1e400'"),
        (b"step,loss\n1.5,2\n", "line 2: step must be a whole number; got '1.5'"),
    ],
)
def test_an_error_in_the_table_has_the_file_and_the_line(tmp_path, content, said):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    for read in (lambda: read_curves(path), lambda: MetricsTable(path, ("step", "loss"), 9)):
        with pytest.raises(ValueError, match=rf"{re.escape(str(path))}, {re.escape(said)}"):
            read()


def test_numbers_that_no_run_can_have_are_not_drawn(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,loss\n1,1e308\n2,-1e308\n3,2\n4,5e-324\n", encoding="utf-8")
    curves = read_curves(tmp_path)
    assert curves["loss"] == [(3, 2), (4, 5e-324)]
    for points in (curves["loss"], [(1, 3e38), (2, -3e38)], [(1, 5e-324), (2, 5e-324)], [(1, 1.0), (2, 1.0 + 1e-15)]):
        picture = draw_curves({"loss": points})
        assert "nan" not in picture
        assert "inf" not in picture


ROWS = [{"step": 3, "loss": 2.5, "accuracy": None, "phase": "a"}, {"step": 6, "loss": 1.5}]
NUMBERS = [({"loss": 2.5}, 3), ({"loss": 1.5}, 6)]


def log_rows(log_to, folder):
    with RunLog(log_to, folder, {"epochs": 3}) as log:
        for row in ROWS:
            log.write(row)


def test_tensorboard_reads_the_numbers(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log_rows("tensorboard", tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["loss"]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 2.5), (6, 1.5)]


@pytest.mark.parametrize("active", [False, True])
def test_mlflow_gets_the_numbers_in_the_active_run_or_in_one_of_its_own(monkeypatch, tmp_path, active):
    calls, module = [], types.ModuleType("mlflow")
    module.active_run = lambda: "run of the user" if active else None
    module.start_run = lambda run_name: calls.append(("start", run_name))
    module.log_params = lambda settings: calls.append(settings)
    module.log_metrics = lambda values, step: calls.append((values, step))
    module.end_run = lambda: calls.append("end")
    monkeypatch.setitem(sys.modules, "mlflow", module)
    log_rows("mlflow", tmp_path)
    within = [{"epochs": 3}, *NUMBERS]
    assert calls == (within if active else [("start", tmp_path.name), *within, "end"])


def test_weights_and_biases_gets_the_numbers(monkeypatch, tmp_path):
    calls, module = [], types.ModuleType("wandb")
    run = types.SimpleNamespace(log=lambda values, step: calls.append((values, step)), finish=lambda: calls.append("end"))
    module.init = lambda **arguments: calls.append(arguments) or run
    monkeypatch.setitem(sys.modules, "wandb", module)
    log_rows("wandb", tmp_path)
    assert calls == [{"name": tmp_path.name, "dir": str(tmp_path), "config": {"epochs": 3}}, *NUMBERS, "end"]


def test_without_a_log_nothing_is_written(tmp_path):
    log_rows(None, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_package_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^log_to wandb needs the package wandb: pip install wandb\.$"):
        RunLog.check("wandb")
    RunLog.check(None)
