"""The article's page is what its notebook prints, line by line."""

import json

import keras
import pytest
from helpers import article_page


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
