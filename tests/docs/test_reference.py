"""The pages that are written by programs equal what these write today, and the reference has every public name."""

import importlib
import inspect
import json
import re
from pathlib import Path

import keras
import pytest
from helpers import article_page, command_line_page, families_page

import keras_bert_rebuild
from keras_bert_rebuild.explain.config_at import released

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


def test_the_top_level_has_at_most_eighty_names():
    assert len(keras_bert_rebuild.__all__) == len(set(keras_bert_rebuild.__all__)) <= 80


def test_every_public_name_is_in_the_reference():
    shown = {path.rpartition(".")[2] for path in SHOWN}
    shown |= {name for path in SHOWN if inspect.ismodule(found(path)) for name in vars(found(path))}
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


# The article's page is what its notebook prints, line by line.


@pytest.mark.slow(torch=True)
@pytest.mark.skipif(keras.config.backend() != "torch", reason="run on torch, which compiles nothing")
def test_the_page_equals_what_the_notebook_prints():
    """`python tests/helpers/article_page.py` writes the page."""
    assert article_page.PAGE.read_text(encoding="utf-8") == article_page.page()


def test_the_page_tells_every_step_and_no_check_failed():
    page = article_page.PAGE.read_text(encoding="utf-8")
    for number in range(1, 10):
        assert page.count(f"## Step {number}: ") == 1
    assert "## Steps 10 to 14: " in page
    assert page.count("**A correction:**") == 5
    printed = "\n".join(part.partition("\n```")[0] for part in page.split("```text\n")[1:])
    # What is false is said to be false in the text above it.
    wrong = [line for line in printed.splitlines() if "False" in line]
    assert wrong == ["all zeros: False | all ones: False", "a ReLU gives the numbers of the layer: False"]


def test_the_notebook_has_no_outputs_of_its_own():
    cells = json.loads(article_page.NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells)


# The gallery of the families is what the code draws and counts.


def test_the_page_equals_what_the_anatomy_says():
    """`python tests/helpers/families_page.py` writes page and pictures."""
    assert families_page.PAGE.read_text(encoding="utf-8") == families_page.page()


def test_every_picture_equals_what_is_drawn():
    drawn = families_page.pictures()
    assert {path.name for path in families_page.PICTURES.iterdir()} == drawn.keys()
    for name, text in drawn.items():
        assert (families_page.PICTURES / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize("module", families_page.modules(), ids=families_page.name_of_module)
def test_every_released_size_is_on_the_page_with_its_parameters(module):
    rows = dict(re.findall(r"^\| (\S+) \| ([\d,]+) \|$", families_page.page(), re.MULTILINE))
    for name, _, count in module.SIZES:
        config, heads = released()[name]
        assert config.num_params(heads) == count
        assert rows[name] == f"{count:,}"


def test_the_tables_of_checkpoints_are_those_that_are_tried():
    assert families_page.TABLES.read_text(encoding="utf-8") == families_page.page_with_tables()
    families = {families_page.name_of_module(module) for module in families_page.modules()}
    for family, capability in families_page.MISSING:
        assert family in families
        assert capability in families_page.CAPABILITIES
