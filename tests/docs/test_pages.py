"""The blocks of the tutorial and the how-to pages run as pasted, one after another, each page in an empty folder."""

import re
import shlex
from pathlib import Path

import keras
import pytest

from keras_bert_rebuild import fill_mask
from keras_bert_rebuild.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]

# What a page says holds on every backend, and torch, which compiles nothing, is through first.
# Graphs that take text are TensorFlow's.
ON_TENSORFLOW = ("serving",)

pytestmark = pytest.mark.slow


def commands(block):
    """The lines of a shell block that call `keras-bert`, as lists of arguments."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["keras-bert"]:
            yield words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    backend = "tensorflow" if page.stem in ON_TENSORFLOW else "torch"
    if keras.config.backend() != backend:
        pytest.skip(f"run on {backend}")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert found
    for language, block in found:
        if language == "python":
            exec(compile(block, page.name, "exec"), namespace)
            continue
        for arguments in commands(block):
            assert main(arguments) == 0, arguments
    if page.stem == "tutorial":  # what it says has been learnt
        found = fill_mask(namespace["model"], namespace["tokenizer"], ["the cow eats [MASK] .", "the [MASK] squeaks ."], top_k=1)
        assert [mask[0][0] for (mask,) in found] == ["grass", "mouse"]


def test_every_python_block_of_a_page_is_run():
    """No other word for the language hides one."""
    for page in PAGES:
        words = set(re.findall(r"^```(\w*)$", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert words <= {"", "python", "sh", "diff", "text", "yaml"}, page
