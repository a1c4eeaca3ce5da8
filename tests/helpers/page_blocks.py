"""The blocks of a Markdown page, run as a user pastes them: one after another, in one folder and one Python session."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers import minilm
from helpers.loopback_hub import LoopbackHub, asked_by_the_client
from keras_bert_rebuild.cli.main import main


def blocks(page):
    """Language and text of every block of a page, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@contextmanager
def minilm_by_name(others=()):
    """While it runs, all-MiniLM-L6-v2 is downloaded from a hub on the loopback interface, which has it from the wheel.

    Args:
        others: repository to folder, of further models of that hub.
    """
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as cache:
        hub = LoopbackHub({"sentence-transformers/all-MiniLM-L6-v2": minilm.FOLDER} | dict(others))
        with asked_by_the_client(hub, patch, Path(cache)):
            yield


def run_blocks(page):
    """Run the blocks marked as Python and sh in the current folder; returns the names that their Python defines."""
    namespace = {"__name__": "__main__"}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(block, page.name, "exec"), namespace)
        elif language == "sh":
            run_shell(block)
    return namespace


def run_shell(block, stdout=None):
    """Run a block command by command; `keras-bert` in this process, which has imported everything, all else in bash.

    Args:
        block: the commands.
        stdout: a file for what bash prints, as `subprocess.run` takes it.
    """
    rest = ""
    for line in block.replace("\\\n", " ").splitlines(keepends=True):
        if not rest and line.startswith("keras-bert "):
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
            continue
        rest += line
        if not re.search(r"<<'END'", rest) or line == "END\n":
            sys.stdout.flush()
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            subprocess.run(["bash", "-euc", rest], check=True, env=os.environ | {"PATH": path}, stdout=stdout)
            rest = ""
    assert not rest
