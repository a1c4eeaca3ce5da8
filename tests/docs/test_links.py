"""Links between the pages work in the repository and on the site, and the site has every page."""

import re
import unicodedata
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")


def anchors(page):
    """The anchors of the titles of a page, as mkdocs and code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode() for title in titles)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in plain}


def test_every_link_leads_to_a_file_and_a_title_in_it():
    links = 0
    for page in [ROOT / "README.md", *PAGES]:
        text = re.sub(r"`[^`]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
        for path, anchor in LINK.findall(text):
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {path}"
            assert not anchor or anchor in anchors(target), f"{page}: {path}#{anchor}"
            links += 1
    assert links > 50


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    """The site leaves out what is beyond, such as a second row on the same line."""
    tables = 0
    for page in [ROOT / "README.md", ROOT / "benchmarks" / "RESULTS.md", *PAGES]:
        text = re.sub(r"`[^`]*`|\\\|", "", FENCE.sub("", page.read_text(encoding="utf-8")))
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({row.strip().count("|") for row in table.splitlines()}) == 1, f"{page}: {table}"
            tables += 1
    assert tables > 50


def test_the_site_has_every_page():
    def leaves(node):
        if isinstance(node, str):
            return [node]
        return [leaf for child in (node.values() if isinstance(node, dict) else node) for leaf in leaves(child)]

    named = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    outside = {"benchmarks.md", "changelog.md"}  # docs/hooks/pages.py makes these
    assert sorted(named) == sorted({page.relative_to(DOCS).as_posix() for page in PAGES} | outside)
