"""Untrusted names and texts, escaped for a terminal, Markdown, HTML and SVG so that they cannot pass for output of the program.

A tensor name with a line break would add lines to a report, and escape sequences would move the cursor of a terminal. All untrusted
text goes through the function for the format in which it is displayed. All HTML and SVG is written here: a text can only be a text,
and a policy allows only the own style and script.
"""

import base64
import hashlib
import html
import json
import re
import unicodedata

# What Markdown would interpret: links, code, emphasis, the edge of a cell; an underscore within a word is text.
_MARKDOWN = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")
_LONGEST = 1000
# Joiners of Indic and Arabic scripts and of emoji are part of words.
_JOINERS = "\u200c\u200d"


def printable(text):
    """A name on one line, for a terminal: control characters, line breaks, direction marks and lone surrogates are escaped.

    Args:
        text: a string, or an object that `str` converts, such as a path.

    Returns:
        A string of printable characters; a very long one is truncated.

    Example:

    >>> printable("bias\\nEverything has a place.\\x1b[2J")
    'bias\\\\nEverything has a place.\\\\x1b[2J'
    """
    text = str(text)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return text if text.isprintable() else "".join(char if _prints(char) else _escaped(char) for char in text)


def decimals(value, digits=4):
    """A number with this many decimals; below zero with the minus sign (U+2212), as everywhere in what people read."""
    return f"{value:.{digits}f}".replace("-", "−")


def printable_lines(text):
    """A message of several lines, for a terminal: like `printable`, but line feeds are retained and nothing is truncated."""
    return "\n".join(
        line if line.isprintable() else "".join(char if _prints(char) else _escaped(char) for char in line)
        for line in str(text).split("\n")
    )


def in_markdown(text):
    """A text for a line or cell of Markdown, escaped so that it contains no tags, links or formatting."""
    return html.escape(_MARKDOWN.sub(r"\\\g<0>", printable(text)), quote=False)


def with_minus(number):
    """A formatted number with a minus sign, which a hyphen is not: every number that pages, pictures and tables for readers show.

    Example:

    >>> with_minus(f"{-0.5:.2f}")
    '−0.50'
    """
    return number.replace("-", "−")


def _prints(char):
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) in ("Zs", "Co")


def _escaped(char):
    return char.encode("unicode_escape").decode("ascii")


POLICY = "Content-Security-Policy"
XHTML = "http://www.w3.org/1999/xhtml"
# Elements of HTML without an end tag.
EMPTY = ("meta", "h:meta")
# Characters that would end a script element or a line of a script, as JSON escapes.
ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


class Verbatim(str):
    """A style sheet, script or markup that is part of this package, and is written as it is; never a text from elsewhere."""


class Element:
    """An element; `str` writes it.

    Args:
        name: its name.
        *content: elements, and texts, whose markup and control characters are escaped; other values as `str` shows them.
        **attributes: values by name, in which `_` stands for `-`, except at the end; attributes of value None are left out.

    Example:

    >>> str(Element("text", "a < b", x=3, class_="title"))
    '<text x="3" class="title">a &lt; b</text>'
    """

    def __init__(self, name, /, *content, **attributes):
        self.name, self.content, self.attributes = name, content, attributes

    def __str__(self):
        named = {name.rstrip("_").replace("_", "-"): value for name, value in self.attributes.items() if value is not None}
        begin = "".join([f"<{self.name}", *(f' {name}="{_quoted(value)}"' for name, value in named.items())])
        if self.name in EMPTY:
            return f"{begin}/>"
        parts = (str(part) if isinstance(part, (Element, Verbatim)) else _text(part) for part in self.content)
        return f"{begin}>{''.join(parts)}</{self.name}>"


def svg_picture(width, height, title, *content, style="", **attributes):
    """The text of an SVG file without scripts.

    Args:
        width, height: its size in pixels.
        title: its name for screen readers.
        *content: see `Element`; every one begins a line.
        style: a style sheet; a `style` attribute would be refused by the policy.
        **attributes: more attributes of the picture.
    """
    # In XML a browser obeys this element; where the picture is part of an HTML page, the prefix keeps it from having an effect.
    head = Element("h:head", _policy(f"style-src {_hash(style)}" if style else "", "h:meta"), **{"xmlns:h": XHTML})
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}", "role": "img"}
    parts = [Element("title", title), Element("metadata", head), *([Element("style", style)] if style else ()), *content]
    lines = [part for one in parts for part in ("\n", one)]
    return f"{Element('svg', *lines, Verbatim(chr(10)), xmlns='http://www.w3.org/2000/svg', **size, **attributes)}\n"


def html_page(title, style, *content, script="", data=None):
    """The text of an HTML file that needs no network.

    Args:
        title: the title of the window.
        style: a style sheet.
        *content: see `Element`.
        script: a script, if the page has one.
        data: the values that the script finds in the element `data`, as JSON.
    """
    allowed = f"style-src {_hash(style)}"
    if script:
        said = Element("noscript", "This page is drawn with JavaScript, which is switched off.")
        values = Element("script", Verbatim(as_script_data(data)), type="application/json", id="data")
        content = (*content, "\n", said, "\n", values, "\n", Element("script", Verbatim(script)))
        allowed = f"script-src {_hash(script)}; {allowed}; img-src data:"
    head = [
        Element("meta", charset="utf-8"),
        _policy(allowed),
        Element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        Element("meta", name="color-scheme", content="light dark"),
        Element("title", title),
        Element("style", Verbatim(style)),
    ]
    lines = [part for one in head for part in ("\n", one)]
    page = Element("html", "\n", Element("head", *lines, "\n"), "\n", Element("body", "\n", *content, "\n"), "\n", lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def as_script_data(values):
    """JSON that is safe in a script element, whatever texts it contains."""
    return json.dumps(values, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _policy(allowed, name="meta"):
    rules = ["default-src 'none'", *filter(None, [allowed]), "base-uri 'none'", "form-action 'none'"]
    return Element(name, http_equiv=POLICY, content=Verbatim("; ".join(rules)))


def _text(value):
    return html.escape(value if isinstance(value, Verbatim) else printable_lines(value), quote=False)


def _quoted(value):
    return _text(value).replace('"', "&quot;")


def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
