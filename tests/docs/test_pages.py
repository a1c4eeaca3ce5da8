"""The blocks of the tutorial, of devices and of the how-to pages run as pasted, in order, each page in an empty folder."""

from pathlib import Path

import pytest
from helpers import guide_pages
from helpers.page_blocks import blocks, run_blocks

from keras_bert_rebuild import fill_mask

DOCS = Path(__file__).parents[2] / "docs"
# tests/docs/test_guides.py runs the others, and compares what they print.
PAGES = [DOCS / "tutorial.md", DOCS / "distribution.md", *sorted((DOCS / "how-to").glob("*.md"))]

pytestmark = pytest.mark.slow(torch=True)


@pytest.mark.backend("torch")  # which compiles nothing; what a page says is true on every backend
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = run_blocks(page)
    if page.stem == "tutorial":  # the page says that it has learnt
        found = fill_mask(namespace["model"], namespace["tokenizer"], ["the cow eats [MASK] .", "the [MASK] squeaks ."], top_k=1)
        assert [mask[0][0] for (mask,) in found] == ["grass", "mouse"]


def test_every_python_block_of_a_page_is_run():
    """No other name for the language hides one."""
    for page in [*PAGES, *guide_pages.PAGES]:
        words = {language for language, _ in blocks(page)}
        assert words <= {"", "python", "sh", "diff", "text", "yaml"}, page
        assert words & {"python", "sh"}, page
