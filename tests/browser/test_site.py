"""Every page of the built site fits on a desk and in a hand, in light and dark: tox -e browser."""

import os
import time
from pathlib import Path

import pytest

SITE = os.environ.get("SITE")
# What is wider than the screen and cannot be reached by scrolling inside of it.
CUT = """
const width = document.documentElement.clientWidth, cut = [];
if (document.documentElement.scrollWidth > window.innerWidth) cut.push('the page');
for (const part of document.querySelectorAll('.md-content :is(table, img, svg, p, li, h1, h2, h3)')) {
  let scrolls = false;
  for (let above = part.parentElement; above; above = above.parentElement)
    scrolls ||= ['auto', 'scroll'].includes(getComputedStyle(above).overflowX);
  if (!scrolls && part.getBoundingClientRect().right > width + 1) cut.push(`${part.tagName} ${part.textContent.slice(0, 40)}`);
}
return cut;
"""
# Buttons whose texts have less contrast than WCAG 2 asks of small text, 4.5 : 1.
PALE = """
const light = (colour) => {
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = colour.match(/[\\d.]+/g).map((v) => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
return [...document.querySelectorAll('.md-button')].filter((button) => {
  const { color, backgroundColor } = getComputedStyle(button);
  const clear = /, 0\\)|transparent/.test(backgroundColor);
  const ends = [light(color), light(clear ? getComputedStyle(document.body).backgroundColor : backgroundColor)];
  return Math.max(...ends) / Math.min(...ends) < 4.5;
}).map((button) => button.textContent);
"""


def wait_for_scheme(browser, name):
    """Wait until the script of the page has set the colours of the system."""
    for _ in range(100):
        if browser.js("return document.body.dataset.mdColorScheme") == name:
            return
        time.sleep(0.02)
    raise AssertionError(f"the colours are not those of {name}")


@pytest.mark.skipif(SITE is None, reason="needs the site of mkdocs in the folder SITE")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_no_page_is_wider_than_the_screen(browser, width, scheme):
    pages = sorted({*Path(SITE).rglob("*.html")} - {Path(SITE) / "404.html"})  # of which the styles need a server
    assert len(pages) > 35
    with browser.screen(width, scheme=scheme):
        for page in pages:
            browser.load(page)
            wait_for_scheme(browser, {"light": "default", "dark": "slate"}[scheme])
            assert browser.js(CUT) == [], page
            if page.name == "index.html" and page.parent == Path(SITE):
                time.sleep(0.3)  # of colours that fade in
                assert browser.js(PALE) == []
                tiles = browser.all(".tour img:not([style*=none])")
                assert len({picture.size["height"] for picture in tiles if picture.is_displayed()}) == 1
                browser.picture(f"site-{width}-{scheme}")
