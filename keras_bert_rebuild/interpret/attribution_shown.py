"""Attributions for a reader: words with a coloured background and the same scores as a table, on an HTML page and in a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_bert_rebuild.explain.html_page import page_of_files
from keras_bert_rebuild.files.printable import Element, printable, printable_lines, with_minus
from keras_bert_rebuild.interpret.methods import METHODS

# Number of tint levels, for and against.
LEVELS = 10

TITLE = "Which words carried the answer"

# The columns of numbers in the table of words.
NUMBERS = ("score", "± standard error")

# Background of the strongest words, for and against, and text colours: two hues that are distinguishable with any colour vision.
FOR, AGAINST = (43, 111, 208), (205, 98, 12)
WHITE, BLACK = "rgb(255,255,255)", "rgb(0,0,0)"


def levels(scores: Sequence[float]) -> list[int]:
    """For every score a level from −`LEVELS` to `LEVELS`, in proportion to the largest; 0 if all are 0.

    Example:

    >>> levels([0.5, -1.0, 0.01])
    [5, -10, 0]
    """
    greatest = max(map(abs, scores), default=0.0)
    return [round(LEVELS * score / greatest) if greatest > 0 else 0 for score in scores]


def pieces_of_text(text: str, words: Sequence[Any]) -> Iterator[tuple[str, int | None]]:
    """A text in pieces: every word with its index in `words`, and the characters between them with None.

    Args:
        text: the text.
        words: the words of the text in order, with `start` and `end`.
    """
    position = 0
    for number, word in enumerate(words):
        if word.start > position:
            yield text[position : word.start], None
        yield text[max(word.start, position) : word.end], number
        position = max(position, word.end)
    if position < len(text):
        yield text[position:], None


def answer_sentence(attribution: Any) -> str:
    """The answer, and the words that raise and lower it most."""
    words = sorted(attribution.words, key=lambda word: word.score)  # none of an empty text
    most = [f"“{word.word}” raises it most" for word in words[-1:] if word.score > 0]
    most += [f"“{word.word}” lowers it most" for word in words[:1] if word.score < 0]
    value = f"The {attribution.target} is {with_minus(f'{attribution.value:.4f}')}"
    return " ".join([*filter(None, [attribution.answer]), f"{value}{': ' * bool(most)}{', '.join(most)}."])


def description(attribution: Any) -> list[str]:
    """How the scores were computed, in lines: the method, the output without the words, and the completeness of the scores."""
    method = METHODS.get(attribution.method)
    settings = ", ".join(f"{name} {value}" for name, value in attribution.settings.items())
    lines = [f"{attribution.method if method is None else method.title}{f' ({settings})' if settings else ''}"]
    if attribution.value_at_baseline is not None:
        absent = {"zero": "vectors of zeros"}.get(attribution.baseline, f"the {attribution.baseline} token")
        lines.append(f"with {absent} for every word: {attribution.value_at_baseline:.4f}")
        if attribution.gap is not None:
            difference = attribution.value - attribution.value_at_baseline
            scores = f"{difference + attribution.gap:.4f} of {difference:.4f}"
            lines.append(f"completeness: scores sum to {scores}, gap {attribution.gap:.1e}")
    return [*lines[:1], *map(with_minus, lines[1:])]


def name_of_text(number: int, count: int) -> str:
    """The name of a text among those that are read together."""
    return "text" if count == 1 else f"text {number + 1}"


def attribution_page(attributions: Sequence[Any]) -> str:
    """A page with one or more attributions below each other, such as those of several methods.

    Args:
        attributions: at least one `Attribution`.

    Returns:
        The text of an HTML file; the content of texts is escaped.
    """
    sections = [part for attribution in attributions for part in (_section(attribution), "\n")]
    name = Element("p", printable(attributions[0].name), class_="soft")
    content = Element("main", "\n", Element("h1", TITLE), "\n", name, "\n", *sections)
    return page_of_files(TITLE, "interpret", ["attribution.css"], content)


def _section(attribution):
    parts = [
        Element("h2", printable(answer_sentence(attribution))),
        *(_text(attribution, number) for number in range(len(attribution.texts))),
        _legend(attribution),
        _table(attribution),
        *(Element("p", printable(line), class_="soft") for line in description(attribution)),
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
    heads, rows = _words(attribution)
    classes = ["number" if head in NUMBERS else None for head in heads]
    shown = Element("tr", *(Element("th", head, class_=kind, scope="col") for head, kind in zip(heads, classes, strict=True)))
    lines = []
    for _, cells in rows:
        lines += [Element("tr", *(Element("td", cell, class_=kind) for cell, kind in zip(cells, classes, strict=True))), "\n"]
    summary = Element("summary", f"{len(rows)} word{'s' * (len(rows) != 1)}, the strongest first")
    table = Element("table", Element("thead", shown), "\n", Element("tbody", "\n", *lines))
    return Element("details", summary, "\n", table, open="open")


def _words(attribution):
    """The headings of the table of words, and its rows, the strongest first: pairs of a word and its cells."""
    several, errors = len(attribution.texts) > 1, any(word.error is not None for word in attribution.words)
    rows = []
    for word in sorted(attribution.words, key=lambda word: -abs(word.score)):
        text = [name_of_text(word.text, len(attribution.texts))] if several else []
        error = ["" if word.error is None else f"{word.error:.4f}"] if errors else []
        rows.append((word, [printable(word.word), *text, _signed(word.score), *error]))
    return ["word", *(["in"] if several else []), "score", *(["± standard error"] if errors else [])], rows


def _class(level):
    return f"f{level}" if level > 0 else f"a{-level}" if level < 0 else "none"


def _signed(score):
    return with_minus(f"{score:+.4f}")


def print_attribution(console: Console, attribution: Any, top: int = 12, bar: int = 24) -> None:
    """Print an attribution.

    Args:
        console: the console; without colours, as in a pipe or with NO_COLOR, the table has the same information.
        attribution: an `Attribution`.
        top: number of words in the table, strongest first.
        bar: length of the longest bar in characters.
    """
    console.print(Text(printable(answer_sentence(attribution)), "bold"), soft_wrap=not console.is_terminal)
    all_levels = levels([word.score for word in attribution.words])
    for number, text in enumerate(attribution.texts):
        own = [(word, level) for word, level in zip(attribution.words, all_levels, strict=True) if word.text == number]
        shown = Text()
        for piece, index in pieces_of_text(text, [word for word, _ in own]):
            shown.append(printable_lines(piece), None if index is None else style_of(own[index][1]))
        console.print()
        if len(attribution.texts) > 1:
            console.print(Text(name_of_text(number, len(attribution.texts)), "dim"))
        console.print(shown, soft_wrap=not console.is_terminal)
    console.print()
    console.print(_strongest(attribution, top, bar))
    if len(attribution.words) > top:
        console.print(Text(f"the strongest {top} of {len(attribution.words)} words", "dim"))
    console.print()
    for line in description(attribution):
        console.print(Text(printable(line), "dim"), soft_wrap=True)


def style_of(level: int) -> str | None:
    """The style of a word of a level, see `levels`; None for level 0."""
    if level == 0:
        return None
    share = 0.25 + 0.75 * abs(level) / LEVELS
    # Fades to the grey between the backgrounds of light and dark terminals.
    ground = tuple(round(share * colour + (1 - share) * 200) for colour in (FOR if level > 0 else AGAINST))
    luminance = sum(weight * colour for weight, colour in zip((0.299, 0.587, 0.114), ground, strict=True))
    return f"{BLACK if luminance > 140 else WHITE} on rgb({','.join(map(str, ground))})"


def _strongest(attribution, top, bar):
    """The strongest words as a table, with a bar for each."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heads, rows = _words(attribution)
    for head in heads:
        table.add_column(head.partition(" ")[0], justify="right" if head in NUMBERS else "left", no_wrap=True)
    table.add_column("")
    strongest = max((abs(word.score) for word in attribution.words), default=0.0) or 1.0
    for word, cells in rows[:top]:
        colour = f"rgb({','.join(map(str, FOR if word.score > 0 else AGAINST))})"
        table.add_row(*map(Text, cells), Text("█" * round(bar * abs(word.score) / strongest), colour))
    return table
