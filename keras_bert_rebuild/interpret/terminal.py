"""An attribution in a terminal: words with a coloured background, and the strongest ones as a table, which needs no colours."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_bert_rebuild.files.printable import printable, printable_lines
from keras_bert_rebuild.interpret.attribution import Attribution
from keras_bert_rebuild.interpret.word_colours import LEVELS, described, levels, name_of_text, pieces_of_text

# Background of the strongest words, for and against, and text colours: two hues that are distinguishable with any colour vision.
FOR, AGAINST = (43, 111, 208), (205, 98, 12)
WHITE, BLACK = "rgb(255,255,255)", "rgb(0,0,0)"


def print_attribution(console: Console, attribution: Attribution, top: int = 12, bar: int = 24) -> None:
    """Print an attribution.

    Args:
        console: the console; without colours, as in a pipe or with NO_COLOR, the table has the same information.
        attribution: the attribution.
        top: number of words in the table, strongest first.
        bar: length of the longest bar in characters.
    """
    first, *others = (printable(line) for line in described(attribution))
    console.print(Text(first, "bold"), soft_wrap=True)
    for line in others:
        console.print(Text(line, "dim"), soft_wrap=True)
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
    console.print(_table(attribution, top, bar))
    if len(attribution.words) > top:
        console.print(Text(f"the strongest {top} of {len(attribution.words)} words", "dim"))


def style_of(level: int) -> str | None:
    """The style of a word of a level, see `word_colours.levels`; None for level 0."""
    if level == 0:
        return None
    share = 0.25 + 0.75 * abs(level) / LEVELS
    # Fades to the grey between the backgrounds of light and dark terminals.
    ground = tuple(round(share * colour + (1 - share) * 200) for colour in (FOR if level > 0 else AGAINST))
    luminance = sum(weight * colour for weight, colour in zip((0.299, 0.587, 0.114), ground, strict=True))
    return f"{BLACK if luminance > 140 else WHITE} on rgb({','.join(map(str, ground))})"


def _table(attribution: Attribution, top: int, bar: int) -> Any:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    errors = any(word.error is not None for word in attribution.words)
    several = len(attribution.texts) > 1
    table.add_column("word", no_wrap=True)
    if several:
        table.add_column("in", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    if errors:
        table.add_column("±", justify="right", no_wrap=True)
    table.add_column("")
    strongest = max(abs(word.score) for word in attribution.words) or 1.0
    for word in sorted(attribution.words, key=lambda word: -abs(word.score))[:top]:
        length = round(bar * abs(word.score) / strongest)
        colour = f"rgb({','.join(map(str, FOR if word.score > 0 else AGAINST))})"
        cells = [Text(printable(word.word)), *([Text(name_of_text(word.text, len(attribution.texts)))] if several else [])]
        cells += [Text(f"{word.score:+.4f}".replace("-", "−")), *([Text(f"{word.error:.4f}")] if errors else [])]
        table.add_row(*cells, Text("█" * length, colour))
    return table
