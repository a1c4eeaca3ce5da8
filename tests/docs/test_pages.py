"""The pages: their programs run and print what they show, their links lead somewhere, their settings are those of a run."""

import re
import unicodedata
from pathlib import Path

import pytest
import yaml
from helpers import guide_pages, minilm
from helpers.guide_pages import blocks, drawn_pictures, elided, minilm_by_name, run_blocks, run_guide, without_numbers

from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

DOCS = Path(__file__).parents[2] / "docs"
# The output of the tutorial and of the guides is compared.
PAGES = sorted((DOCS / "how-to").glob("*.md"))


@pytest.mark.slow(torch=True)
@pytest.mark.skipif(minilm.FOLDER is None, reason="needs the wheel of MiniLM")
@pytest.mark.backend("torch")  # which compiles nothing; what a page says is true on every backend
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with minilm_by_name():
        run_blocks(page)


@pytest.mark.slow(torch=True)
def test_every_python_block_of_a_page_is_run():
    """No other name for the language hides one."""
    for page in [*PAGES, *guide_pages.PAGES]:
        words = {language for language, _ in blocks(page)}
        assert words <= {"", "python", "sh", "diff", "text", "yaml"}, page
        assert words & {"python", "sh"}, page


# The blocks of the guides run, and print what the guides say, apart from digits, which processors round differently.


# What these packages run.
GUIDES = guide_pages.PAGES
NEEDS = {"export": "onnxruntime"}


@pytest.mark.slow(torch=True)
@pytest.mark.backend("torch")  # which compiles nothing
@pytest.mark.timeout(1200)  # one of them fine-tunes MiniLM: a minute, and many on a busy machine
@pytest.mark.skipif(minilm.FOLDER is None, reason="needs the wheel of MiniLM")
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_prints_what_it_says(page, tmp_path, monkeypatch):
    """`python tests/helpers/guide_pages.py` writes the outputs into the pages."""
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = page.read_text(encoding="utf-8")
    with minilm_by_name():
        printed = run_guide(page)
    assert without_numbers(printed) == without_numbers(text)
    for name, picture in drawn_pictures(text).items():
        # The number of ticks depends on the values.
        old = (DOCS / "images" / name).read_text(encoding="utf-8")
        assert {*map(without_numbers, picture.splitlines())} == {*map(without_numbers, old.splitlines())}, name


@pytest.mark.slow(torch=True)
def test_lines_left_out_stay_left_out():
    printed = "\n".join("abcdefgh")
    assert elided(printed, "a\nb\n...\nh\n") == "a\nb\n...\nh\n"
    assert elided(printed, "x\n...\nd\n?\n...\n?\n?\n") == "a\n...\nd\ne\n...\ng\nh\n"
    assert elided(printed, "") == printed + "\n"


@pytest.mark.slow(torch=True)
def test_digits_are_not_compared_and_words_are():
    assert without_numbers("score 0.91 of 1,000") == without_numbers("score 0.89 of 1,002")
    assert without_numbers("score 0.91") != without_numbers("scores 0.91")


# Links between the pages work in the repository and on the site, and the site has every page.


ROOT = Path(__file__).parents[2]
ALL_PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")


def anchors(page):
    """The anchors of the titles of a page, as mkdocs and code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode() for title in titles)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in plain}


def test_every_link_leads_to_a_file_and_a_title_in_it():
    links = 0
    for page in [ROOT / "README.md", *ALL_PAGES]:
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
    for page in [ROOT / "README.md", ROOT / "benchmarks" / "RESULTS.md", *ALL_PAGES]:
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
    assert sorted(named) == sorted({page.relative_to(DOCS).as_posix() for page in ALL_PAGES} | outside)


# The files of settings that the pages show are settings of a run.


TRAINING = Path(__file__).parents[2] / "docs" / "training.md"
SHOWN = [yaml.safe_load(block) for language, block in blocks(TRAINING) if language == "yaml"]


@pytest.mark.parametrize("shown", SHOWN, ids=range(len(SHOWN)))
def test_a_file_of_settings_of_the_page_on_training_is_one(shown):
    assert PretrainSettings.from_dict(shown).total_steps > 1


def test_the_curriculum_has_the_same_tokens_in_every_step_and_grows():
    (shown,) = (settings for settings in SHOWN if settings.get("packing"))
    phases = PretrainSettings.from_dict(shown).all_phases
    assert len({phase.batch_size * phase.seq_len for phase in phases}) == 1
    lengths = [phase.seq_len for phase in phases]
    assert lengths == sorted(set(lengths))
