"""The reference lists everything public under its name, and every option of the command line."""

import importlib
import re
from pathlib import Path

from helpers import command_line_page

import keras_bert_rebuild

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(REFERENCE.glob("*.md"))}
# The names that a page shows through mkdocstrings.
SHOWN = [path for text in PAGES.values() for path in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
# The names that a page lists in its own text.
SAID = {name for text in PAGES.values() for name in re.findall(r"`(?:keras_bert_rebuild\.)?(\w+)[`(]", text)}


def found(path):
    """The object at a path, which may be a module."""
    module, _, name = path.rpartition(".")
    parent = importlib.import_module(module)
    return getattr(parent, name) if hasattr(parent, name) else importlib.import_module(path)


def rows(title):
    """The rows below a title of the index, lists of the names in every cell."""
    section = PAGES["index.md"].split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\|(.+)\|$", section, re.MULTILINE)
    return [[re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")] for line in lines]


def test_the_index_lists_the_names_of_the_package():
    listed = {name for first, *_ in rows("Top-level names") for name in first}
    assert listed == set(keras_bert_rebuild.__all__)


def test_the_top_level_has_about_sixty_names():
    assert len(keras_bert_rebuild.__all__) == len(set(keras_bert_rebuild.__all__)) <= 71


def test_every_public_name_is_in_the_reference():
    shown = {path.rpartition(".")[2] for path in SHOWN}
    assert not set(keras_bert_rebuild.__all__) - shown - SAID
    # Whatever has its own docstring is shown with it.
    constants = {"PretrainedInfo", "__version__"}
    assert {name for name in keras_bert_rebuild.__all__ if not name.startswith(("TOKEN_", "POOL_"))} - constants <= shown


def test_what_is_shown_exists_has_a_docstring_and_is_the_public_object():
    # The callable packages are these functions.
    called = {"keras_bert_rebuild.explain.explanation.explain", "keras_bert_rebuild.export.export_model.export"}
    for path in SHOWN:
        name = path.rpartition(".")[2]
        shown = found(path)
        assert shown.__doc__, path
        if name in keras_bert_rebuild.__all__ and path not in called:
            assert shown is getattr(keras_bert_rebuild, name), path


def test_other_names_can_be_imported_from_the_module_in_the_index():
    beside = {name: ["layers"] for name in keras_bert_rebuild.layers.__all__}
    beside |= {name: modules for modules, names in rows("Other public names")[1:] for name in names}
    here = {*dir(keras_bert_rebuild), "labelled_examples"}  # a page of records, not a name
    for path in SHOWN:
        name = path.rpartition(".")[2]
        if name not in here:
            modules = [importlib.import_module(f"keras_bert_rebuild.{module}") for module in beside[name]]
            assert any(getattr(module, name, None) is found(path) for module in modules), path


def test_names_removed_from_the_top_level_are_not_imported_from_the_package():
    assert not {*keras_bert_rebuild.layers.__all__, "Perplexity", "add_tokens", "Plan"} - {"gelu"} & set(dir(keras_bert_rebuild))


def test_nothing_is_shown_twice():
    assert len(SHOWN) == len(set(SHOWN))


def test_the_page_of_the_command_line_equals_the_parser():
    """`python tests/helpers/command_line_page.py` writes the page."""
    assert PAGES["command-line.md"] == command_line_page.page()


def test_every_verb_has_a_title():
    for verb in command_line_page.VERBS:
        assert f"\n## keras-bert {verb}\n" in PAGES["command-line.md"]
