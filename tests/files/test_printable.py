"""Untrusted names are shown, and have no effect."""

import pytest

from keras_bert_rebuild.files.printable import in_markdown, printable, printable_lines

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
