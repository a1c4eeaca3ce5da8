"""The blocks of the guides run, and print what the guides say, apart from digits, which processors round differently."""

import pytest
from helpers import minilm
from helpers.guide_pages import DOCS, PAGES, drawn_pictures, elided, run_guide, without_numbers

pytestmark = pytest.mark.slow(torch=True)

# What these packages run.
NEEDS = {"export": "onnxruntime"}


@pytest.mark.backend("torch")  # which compiles nothing
@pytest.mark.timeout(1200)  # one of them fine-tunes MiniLM: a minute, and many on a busy machine
@pytest.mark.skipif(minilm.FOLDER is None, reason="needs the wheel of MiniLM")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_guide_prints_what_it_says(page, tmp_path, monkeypatch):
    """`python tests/helpers/guide_pages.py` writes the outputs into the pages."""
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = page.read_text(encoding="utf-8")
    assert without_numbers(run_guide(page)) == without_numbers(text)
    for name, picture in drawn_pictures(text).items():
        # The number of ticks depends on the values.
        old = (DOCS / "images" / name).read_text(encoding="utf-8")
        assert {*map(without_numbers, picture.splitlines())} == {*map(without_numbers, old.splitlines())}, name


def test_lines_left_out_stay_left_out():
    printed = "\n".join("abcdefgh")
    assert elided(printed, "a\nb\n...\nh\n") == "a\nb\n...\nh\n"
    assert elided(printed, "x\n...\nd\n?\n...\n?\n?\n") == "a\n...\nd\ne\n...\ng\nh\n"
    assert elided(printed, "") == printed + "\n"


def test_digits_are_not_compared_and_words_are():
    assert without_numbers("score 0.91 of 1,000") == without_numbers("score 0.89 of 1,002")
    assert without_numbers("score 0.91") != without_numbers("scores 0.91")
