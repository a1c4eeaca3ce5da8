"""The blocks of the how-to pages run as pasted, in order, each page in an empty folder."""

from pathlib import Path

import pytest
from helpers import guide_pages, minilm
from helpers.page_blocks import blocks, minilm_by_name, run_blocks

# tests/docs/test_guides.py runs the tutorial and the guides, and compares what they print.
PAGES = sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("*.md"))

pytestmark = pytest.mark.slow(torch=True)


@pytest.mark.skipif(minilm.FOLDER is None, reason="needs the wheel of MiniLM")
@pytest.mark.backend("torch")  # which compiles nothing; what a page says is true on every backend
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with minilm_by_name():
        run_blocks(page)


def test_every_python_block_of_a_page_is_run():
    """No other name for the language hides one."""
    for page in [*PAGES, *guide_pages.PAGES]:
        words = {language for language, _ in blocks(page)}
        assert words <= {"", "python", "sh", "diff", "text", "yaml"}, page
        assert words & {"python", "sh"}, page
