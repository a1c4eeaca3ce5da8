"""Every page of the built site fits on a desk and in a hand, in light and dark: tox -e browser."""

import os
import time
from pathlib import Path

import pytest

SITE = os.environ.get("SITE")
# What is wider than the screen and cannot be reached by scrolling inside of it.
CUT = """
const width = document.documentElement.clientWidth, found = [];
if (document.documentElement.scrollWidth > window.innerWidth) found.push('the page');
for (const part of document.querySelectorAll('.md-content :is(table, img, svg, p, li, h1, h2, h3)')) {
  let scrolls = false;
  for (let above = part.parentElement; above; above = above.parentElement)
    scrolls ||= ['auto', 'scroll'].includes(getComputedStyle(above).overflowX);
  if (!scrolls && part.getBoundingClientRect().right > width + 1) found.push(`${part.tagName} ${part.textContent.slice(0, 40)}`);
}
return found;
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
                browser.picture(f"site-{width}-{scheme}")
