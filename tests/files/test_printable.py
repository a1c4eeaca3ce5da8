"""Untrusted names are shown and have no effect; HTML and SVG have one writer, in which a text is a text."""

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.hostile_pages import digest_of, elements_of, hostile_pages
from hypothesis import given
from hypothesis import strategies as st

import keras_bert_rebuild
from keras_bert_rebuild.files.printable import Element, html_page, in_markdown, printable, printable_lines, svg_picture

EVIL = (
    "a\nEverything has a place.",
    "\x1b[2J\x1b]0;title\x07",
    "a\u202eb",
    "a\u2028b\x85c\rd",
    "\ud800",
    "\x00",
    "a\u2066b\ufeff",
    "\x9b31m",
)


@pytest.mark.parametrize("text", EVIL)
def test_shown_text_stays_on_its_line_and_moves_no_cursor(text):
    shown = printable(text)
    assert shown.isprintable()
    assert "\\" in shown
    assert printable_lines(f"one\n{text}").count("\n") == 1 + text.count("\n")
    shown.encode("utf-8")


@pytest.mark.parametrize("text", ["bert.encoder.layer.0/kernel:0", "안녕하세요", "a b", "Zoë", "🙂", "क्‍ष", "a\u00a0b", "…"])
def test_names_of_any_script_are_shown_as_they_are(text):
    assert printable(text) == text


def test_a_long_name_is_cut():
    assert len(printable("x" * 10**6)) == 1001


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[a](javascript:alert(1))", r"\[a\](javascript:alert(1))"),
        ("![a](http://b)", r"!\[a\](http://b)"),
        ("a|b\nc", r"a\|b\\nc"),
        ("`x` *y* _z_", r"\`x\` \*y\* \_z\_"),
        ("learning_rate 3e-05", "learning_rate 3e-05"),
        ("data/train_1.tsv", "data/train_1.tsv"),
    ],
)
def test_markdown_is_shown_as_text(text, shown):
    assert in_markdown(text) == shown


ANY = st.text(st.characters(), max_size=20) | st.text("<>&\"'/=!-[]x \n\r\t\x00\ud800\u202e", max_size=20)


@given(ANY, ANY)
def test_any_text_is_a_text_of_its_element_and_a_value_of_its_attribute(content, value):
    found = ElementTree.fromstring(str(Element("a", content, data_x=value)))
    assert list(found) == []
    assert (found.text or "") == printable_lines(content)
    assert found.attrib == {"data-x": printable_lines(value).replace("\n", " ")}


@given(ANY)
def test_a_page_and_a_picture_with_any_text_have_the_elements_of_one_with_none(text):
    picture, page = (
        svg_picture(1, 1, text, Element("text", text), style="a > b {}"),
        html_page(text, "p {}", text, Element("p", text)),
    )
    without = svg_picture(1, 1, "", Element("text"), style="a > b {}"), html_page("", "p {}", Element("p"))
    for name, one, other in (("a.svg", picture, without[0]), ("a.html", page, without[1])):
        assert [part[:2] for part in elements_of(name, one)] == [part[:2] for part in elements_of(name, other)]


@pytest.fixture(scope="module")
def pages():
    return hostile_pages()


PAGES = ("curves", "confusion", "probing", "diagram", "attribution", "lens", "attention", "frame")


@pytest.mark.parametrize("name", PAGES)
def test_a_hostile_text_adds_no_element_and_no_attribute(pages, name):
    name = next(file for file in pages if file.startswith(f"{name}."))
    found = elements_of(name, pages[name])
    policy = " ".join(attributes["content"] for _, attributes, _ in found if "http-equiv" in attributes)
    for tag, attributes, text in found:
        assert not [key for key in attributes if key.lower().startswith("on")]
        assert tag not in ("img", "object", "embed", "base", "foreignObject", "image", "use", "a")
        if tag in ("script", "style") and attributes.get("type") != "application/json":
            assert f"{tag}-src {digest_of(text)}" in policy
    if name == "frame.html":
        assert [tag for tag, *_ in found] == ["title", "iframe"]
    else:
        assert policy.startswith("default-src 'none'; ")
        assert "script-src" not in policy or name in ("lens.html", "attention.html")
        assert len([tag for tag, *_ in found if tag == "title"]) == 1 or name == "confusion.svg"
    if name.endswith(".svg"):
        assert [tag for tag, *_ in found if tag == "script"] == []
        assert not [tag for tag, attributes, _ in found if "style" in attributes]


def test_no_other_module_puts_values_into_markup():
    package, found = Path(keras_bert_rebuild.__file__).parent, []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                if any(re.search(r"</[a-z]{2,}>|<[a-z]+ [a-z-]+=|<!D", text) for text in texts):
                    found.append(f"{path.relative_to(package)}:{node.lineno}")
    assert [place for place in found if not place.startswith("files/printable.py")] == []
