"""The logit lens in a terminal."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from keras_bert_rebuild.files.printable import printable

# Width in characters of the column of a depth, and of the columns before these.
CELL, FIRST = 11, 14

# The number of masks that get a table each.
DETAILED = 4


def as_tables(lens, width=80):
    """Tables for rich: all details for a few masks; for more masks, or a text without any, the most probable tokens.

    Args:
        lens: a `LogitLens`.
        width: characters per line; if not all depths fit, some are shown, evenly spread, including the first and the last.
    """
    masks = [i for i in lens.positions() if lens.masked[i]]
    parts = [_of_position(lens, position) for position in masks[:DETAILED]]
    if len(parts) < max(len(masks), 1):
        shown = spread(len(lens.depths), max(2, (width - FIRST) // CELL))
        parts.append(_overview(lens, shown))
        if len(shown) < len(lens.depths):
            parts.append(Text(f"{len(shown)} of {len(lens.depths)} depths fit into {width} characters.", "dim"))
    return Group(*(line for part in parts for line in ("", part)))


def spread(count, maximum):
    """At most `maximum` numbers from 0 to `count` - 1, evenly spread, including the first and the last.

    Example:

    >>> spread(13, 5), spread(3, 5)
    ([0, 3, 6, 9, 12], [0, 1, 2])
    """
    chosen = min(count, maximum)
    return [round(i * (count - 1) / max(chosen - 1, 1)) for i in range(chosen)]


def _overview(lens, depths):
    table = _table("text", *(lens.depths[depth] for depth in depths))
    for position in lens.positions():
        cells = []
        for depth in depths:
            token = lens.top_tokens[depth][position][0]
            style = "bold" if token == lens.final_tokens[position] else "dim"
            cells.append(Text.assemble((_cut(token), style), (f" {lens.top_probabilities[depth, position, 0]:.0%}", "dim")))
        table.add_row(Text(_cut(lens.words[position] or lens.tokens[position]), "cyan"), *cells)
    return table


def _of_position(lens, position):
    true = lens.true_tokens[position]
    known = [] if true is None else [f"rank of {_cut(true, 20)}"]
    final = _cut(lens.final_tokens[position], 20)
    table = _table("", "likeliest", f"rank of {final}", *known, "divergence", right=2)
    table.title, table.title_justify = f"{_cut(lens.tokens[position], 20)}, token {position}", "left"
    for depth, name in enumerate(lens.depths):
        tokens = zip(lens.top_tokens[depth][position], lens.top_probabilities[depth, position], strict=True)
        likeliest = Text(", ").join(
            Text.assemble(
                (_cut(token, 20), "bold" if token == true or token == lens.final_tokens[position] else ""), f" {share:.2f}"
            )
            for token, share in tokens
        )
        ranks = [f"{lens.final_ranks[depth, position]:,}", *([f"{lens.true_ranks[depth, position]:,}"] if known else [])]
        table.add_row(name, likeliest, *ranks, f"{lens.divergences[depth, position]:.2f}")
    return table


def _table(*names, right=None):
    """A table; columns from index `right` are right-aligned numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold", title_style="bold")
    for number, name in enumerate(names):
        is_number = right is not None and number >= right
        table.add_column(Text(name), justify="right" if is_number else "left", no_wrap=is_number or right is None)
    return table


def _cut(text, most=10):
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
