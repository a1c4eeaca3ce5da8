"""The folder of a run records its settings, and the commit, which is read without running any program of the folder."""

import os
import subprocess

import keras
import pytest

from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.recipes.run_folder import RunFolder, git_revision, versions


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
