"""The commit of a folder is read without running any program of the folder."""

import os
import subprocess

import pytest

from keras_bert_rebuild.recipes.run_folder import git_revision, versions

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
