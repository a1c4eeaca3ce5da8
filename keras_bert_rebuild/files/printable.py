"""Untrusted names and texts, escaped so that they cannot pass for output of the program.

A tensor name with a line break would add lines to a report, and escape sequences would move the cursor of a terminal. All untrusted
text goes through the function for the format in which it is displayed.
"""

import html
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


def printable_lines(text):
    """A message of several lines, for a terminal: like `printable`, but line feeds are retained and nothing is truncated."""
    return "\n".join(
        line if line.isprintable() else "".join(char if _prints(char) else _escaped(char) for char in line)
        for line in str(text).split("\n")
    )


def in_markdown(text):
    """A text for a line or cell of Markdown, escaped so that it contains no tags, links or formatting."""
    return html.escape(_MARKDOWN.sub(r"\\\g<0>", printable(text)), quote=False)


def _prints(char):
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) in ("Zs", "Co")


def _escaped(char):
    return char.encode("unicode_escape").decode("ascii")
