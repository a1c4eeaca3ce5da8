"""Attributions as one HTML file: coloured words, the same scores as a table, no script and no network."""

from collections.abc import Sequence
from importlib import resources
from typing import Any

from keras_bert_rebuild.files.printable import Element, html_page, printable
from keras_bert_rebuild.interpret.word_colours import described, levels, name_of_text, pieces_of_text

TITLE = "Which words carried the answer"


def attribution_page(attributions: Sequence[Any]) -> str:
    """A page with one or more attributions below each other, such as those of several methods.

    Args:
        attributions: at least one `Attribution`.

    Returns:
        The text of an HTML file; the content of texts is escaped.
    """
    style = "\n" + (resources.files("keras_bert_rebuild.interpret") / "page" / "attribution.css").read_text(encoding="utf-8")
    sections = [part for attribution in attributions for part in (_section(attribution), "\n")]
    name = Element("p", printable(attributions[0].name), class_="soft")
    return html_page(TITLE, style, Element("main", "\n", Element("h1", TITLE), "\n", name, "\n", *sections))


def _section(attribution):
    first, *others = described(attribution)
    parts = [
        Element("h2", printable(first)),
        *(Element("p", printable(line), class_="soft") for line in others),
        *(_text(attribution, number) for number in range(len(attribution.texts))),
        _legend(attribution),
        _table(attribution),
    ]
    return Element("section", "\n", *(one for part in parts for one in (part, "\n")))


def _text(attribution, number):
    all_levels = levels([word.score for word in attribution.words])
    own = [(word, level) for word, level in zip(attribution.words, all_levels, strict=True) if word.text == number]
    parts = []
    for piece, index in pieces_of_text(attribution.texts[number], [word for word, _ in own]):
        if index is None:
            parts.append(piece)
        else:
            word, level = own[index]
            parts.append(Element("mark", piece, class_=_class(level), title=_signed(word.score)))
    name = name_of_text(number, len(attribution.texts))
    which = [Element("span", name, class_="which")] if len(attribution.texts) > 1 else []
    return Element("p", *which, *parts, class_="text", dir="auto")


def _legend(attribution):
    scores = [word.score for word in attribution.words]
    shown = []
    if max(scores, default=0) > 0:
        shown.append((max(scores), " raises the value most"))
    if min(scores, default=0) < 0:
        shown.append((min(scores), " lowers it most"))
    all_levels = dict(zip(scores, levels(scores), strict=True))
    marks = (Element("li", Element("mark", _signed(score), class_=_class(all_levels[score])), said) for score, said in shown)
    return Element("ul", *marks, class_="legend")


def _table(attribution):
    errors = any(word.error is not None for word in attribution.words)
    several = len(attribution.texts) > 1
    heads = [
        Element("th", "word", scope="col"),
        *([Element("th", "in", scope="col")] if several else []),
        Element("th", "score", class_="number", scope="col"),
        *([Element("th", "± standard error", class_="number", scope="col")] if errors else []),
    ]
    rows = []
    for word in sorted(attribution.words, key=lambda word: -abs(word.score)):
        cells = [Element("td", printable(word.word))]
        cells += [Element("td", name_of_text(word.text, len(attribution.texts)))] if several else []
        cells.append(Element("td", _signed(word.score), class_="number"))
        cells += [Element("td", "" if word.error is None else f"{word.error:.4f}", class_="number")] if errors else []
        rows += [Element("tr", *cells), "\n"]
    count = len(attribution.words)
    summary = Element("summary", f"{count} word{'s' * (count != 1)}, the strongest first")
    table = Element("table", Element("thead", Element("tr", *heads)), "\n", Element("tbody", "\n", *rows))
    return Element("details", summary, "\n", table)


def _class(level):
    return f"f{level}" if level > 0 else f"a{-level}" if level < 0 else "none"


def _signed(score):
    return f"{score:+.4f}".replace("-", "−")
