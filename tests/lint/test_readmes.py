"""The translated README matches the English one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))


def test_both_have_the_same_blocks_of_code():
    blocks = [re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL) for text in (ENGLISH, CHINESE)]
    assert blocks[0] == blocks[1]


def test_both_have_the_same_headings_and_rows_of_tables():
    for start in ("## ", "|", "- "):
        counts = [sum(line.startswith(start) for line in text.splitlines()) for text in (ENGLISH, CHINESE)]
        assert counts[0] == counts[1] > 0, start


def test_both_have_the_same_figures_in_their_tables():
    rows = [[line for line in text.splitlines() if line.startswith("|")] for text in (ENGLISH, CHINESE)]
    for english, chinese in zip(*rows, strict=True):
        assert sorted(re.findall(r"\d[\d.,]*\d|\d", english)) == sorted(re.findall(r"\d[\d.,]*\d|\d", chinese)), english


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_every_link_has_a_file(text):
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
