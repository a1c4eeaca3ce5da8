"""The reference names everything that is public, under the name that it has, and every option of the command line."""

import importlib
import re
from pathlib import Path

import command_line_page

import keras_bert_rebuild

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(REFERENCE.glob("*.md"))}
# What a page has mkdocstrings show.
SHOWN = [path for text in PAGES.values() for path in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
# What a page says in its own words.
SAID = {name for text in PAGES.values() for name in re.findall(r"`(?:keras_bert_rebuild\.)?(\w+)[`(]", text)}


def found(path):
    """The object at a path; of a module the module."""
    module, _, name = path.rpartition(".")
    parent = importlib.import_module(module)
    return getattr(parent, name) if hasattr(parent, name) else importlib.import_module(path)


def test_every_public_name_is_in_the_reference():
    shown = {path.rpartition(".")[2] for path in SHOWN}
    assert not set(keras_bert_rebuild.__all__) - shown - SAID
    # What has a docstring of its own is shown with it.
    constants = {"ACTIVATIONS", "PretrainedInfo", "__version__"}
    assert {name for name in keras_bert_rebuild.__all__ if not name.startswith(("TOKEN_", "POOL_"))} - constants <= shown


def test_what_is_shown_is_there_has_a_docstring_and_is_what_the_public_name_means():
    for path in SHOWN:
        name = path.rpartition(".")[2]
        shown = found(path)
        assert shown.__doc__, path
        assert name not in keras_bert_rebuild.__all__ or shown is getattr(keras_bert_rebuild, name), path


def test_nothing_is_shown_twice():
    assert len(SHOWN) == len(set(SHOWN))


def test_the_page_of_the_command_line_is_what_the_parser_says():
    """`python tests/command_line_page.py` writes it anew."""
    assert PAGES["command-line.md"] == command_line_page.page()


def test_every_verb_has_a_title():
    for verb, _, _ in command_line_page.VERBS:
        assert f"\n## keras-bert {verb}\n" in PAGES["command-line.md"]
