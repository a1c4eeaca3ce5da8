"""Pages of `keras-bert why` and `keras-bert lens`, and all pages with hostile texts, in a real browser: tox -e browser."""

import pytest
from helpers.hostile_pages import RUN, hostile_pages
from helpers.small_tasks import TOKENIZER, small_encoder, small_task

from keras_bert_rebuild import TextClassifier
from keras_bert_rebuild.interpret import attribute, logit_lens
from keras_bert_rebuild.interpret.attribution_shown import attribution_page
from keras_bert_rebuild.interpret.lens_record import lens_page

HOSTILE = "the cat </script><script>alert(1)</script> <img src=x onerror='alert(2)'> sat on the mat & likes london"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    classifier = small_task(TextClassifier, labels=("cat", "dog"))
    attributions = [
        attribution
        for options in ({"method": "integrated-gradients", "steps": 4}, {"method": "leave-one-out"}, {"method": "rollout"})
        for attribution in attribute(classifier, [HOSTILE, "a red dog"], target="dog", **options)
    ]
    (folder / "why.html").write_text(attribution_page(attributions), encoding="utf-8")
    lens = logit_lens(small_encoder(["mlm"]), TOKENIZER, "the [MASK] </script><script>alert(1)</script> sat on the mat")
    (folder / "lens.html").write_text(lens_page(lens, name="<b>a model</b>"), encoding="utf-8")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 390])
@pytest.mark.parametrize("name", ["why", "lens"])
def test_a_page_fits_its_screen_and_axe_finds_nothing(browser, folder, name, width, scheme):
    with browser.screen(width, 940 if width > 390 else 844, scheme):
        browser.load(folder / f"{name}.html")
        assert "cat" in browser.text("body")
        assert browser.js("return document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.all("body img") == []
        assert browser.violations() == []
        # Words that lower the value are underlined: the tint of the weakest cannot be seen on every screen.
        lowering = browser.all("mark[class^=a]")
        assert all("inset" in word.value_of_css_property("box-shadow") for word in lowering)
        assert lowering or name == "lens"
        browser.picture(f"{name}-{width}-{scheme}")
        browser.check_quiet()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, text in hostile_pages().items():
        (folder / name).write_text(text, encoding="utf-8")
        # What a fault of the writer would do.
        for end in ("</svg>", "</body>"):
            if text.rstrip().endswith(end) or f"{end}\n</html>" in text:
                before, _, after = text.rpartition(end)
                (folder / f"faulty-{name}").write_text(f"{before}<script>{RUN}</script>{end}{after}", encoding="utf-8")
    return folder


PAGES = ("curves.svg", "confusion.svg", "probing.svg", "diagram.svg")
PAGES += ("attribution.html", "lens.html", "attention.html")


@pytest.mark.parametrize("name", [*PAGES, "frame.html"])
def test_no_text_is_run(browser, hostile, name):
    (browser.open if name in ("lens.html", "attention.html") else browser.load)(hostile / name)
    assert browser.js("return document.documentElement.dataset.executed ?? null") is None
    browser.check_quiet()


@pytest.mark.parametrize("name", PAGES)
def test_the_policy_stops_a_script_that_is_not_the_page_s_own(browser, hostile, name):
    browser.load(hostile / f"faulty-{name}")
    assert browser.js("return document.documentElement.getAttribute('data-executed')") is None
