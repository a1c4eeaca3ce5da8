"""The gallery of the families is what the code draws and counts."""

import re

import pytest
from helpers import families_page

from keras_bert_rebuild.explain.config_at import released


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
