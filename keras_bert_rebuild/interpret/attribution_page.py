"""Attributions as one HTML file: coloured words, the same scores as a table, no script and no network."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from keras_bert_rebuild.files.printable import in_xml, printable_lines
from keras_bert_rebuild.interpret.word_colours import described, levels, name_of_text, pieces_of_text

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {hash}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Which words carried the answer</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>Which words carried the answer</h1>
<p class="soft">{name}</p>
{sections}
</main>
</body>
</html>
"""


def attribution_page(attributions: Sequence[Any]) -> str:
    """A page with one or more attributions below each other, such as those of several methods.

    Args:
        attributions: at least one `Attribution`.

    Returns:
        The text of an HTML file; the content of texts is escaped.
    """
    style = "\n" + (resources.files("keras_bert_rebuild.interpret") / "page" / "attribution.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    return PAGE.format(
        hash=f"'sha256-{digest}'",
        style=style,
        name=in_xml(attributions[0].name),
        sections="\n".join(_section(attribution) for attribution in attributions),
    )


def _section(attribution):
    first, *others = described(attribution)
    texts = "\n".join(_text(attribution, number) for number in range(len(attribution.texts)))
    notes = "".join(f'<p class="soft">{in_xml(line)}</p>\n' for line in others)
    return f"<section>\n<h2>{in_xml(first)}</h2>\n{notes}{texts}\n{_legend(attribution)}\n{_table(attribution)}\n</section>"


def _text(attribution, number):
    all_levels = levels([word.score for word in attribution.words])
    own = [(word, level) for word, level in zip(attribution.words, all_levels, strict=True) if word.text == number]
    parts = []
    for piece, index in pieces_of_text(attribution.texts[number], [word for word, _ in own]):
        if index is None:
            parts.append(_escaped(piece))
        else:
            word, level = own[index]
            parts.append(f'<mark class="{_class(level)}" title="{_signed(word.score)}">{_escaped(piece)}</mark>')
    name = name_of_text(number, len(attribution.texts))
    which = f'<span class="which">{name}</span>' if len(attribution.texts) > 1 else ""
    return f'<p class="text" dir="auto">{which}{"".join(parts)}</p>'


def _legend(attribution):
    scores = [word.score for word in attribution.words]
    shown = []
    if max(scores, default=0) > 0:
        shown.append(f'<li><mark class="{_class(max(levels(scores)))}">{_signed(max(scores))}</mark> raises the value most</li>')
    if min(scores, default=0) < 0:
        shown.append(f'<li><mark class="{_class(min(levels(scores)))}">{_signed(min(scores))}</mark> lowers it most</li>')
    return f'<ul class="legend">{"".join(shown)}</ul>'


def _table(attribution):
    errors = any(word.error is not None for word in attribution.words)
    several = len(attribution.texts) > 1
    heads = [
        '<th scope="col">word</th>',
        *(['<th scope="col">in</th>'] if several else []),
        '<th class="number" scope="col">score</th>',
    ]
    heads += ['<th class="number" scope="col">± standard error</th>'] if errors else []
    rows = []
    for word in sorted(attribution.words, key=lambda word: -abs(word.score)):
        cells = [f"<td>{in_xml(word.word)}</td>"]
        cells += [f"<td>{name_of_text(word.text, len(attribution.texts))}</td>"] if several else []
        cells.append(f'<td class="number">{_signed(word.score)}</td>')
        cells += [f'<td class="number">{"" if word.error is None else f"{word.error:.4f}"}</td>'] if errors else []
        rows.append(f"<tr>{''.join(cells)}</tr>")
    count = len(attribution.words)
    summary = f"<summary>{count} word{'s' * (count != 1)}, the strongest first</summary>"
    table = f"<table>\n<thead><tr>{''.join(heads)}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>"
    return f"<details>{summary}\n{table}\n</details>"


def _class(level):
    return f"f{level}" if level > 0 else f"a{-level}" if level < 0 else "none"


def _signed(score):
    return f"{score:+.4f}".replace("-", "−")


def _escaped(text):
    """A piece of a text, line breaks included."""
    return "\n".join(in_xml(line) for line in printable_lines(text).split("\n"))
