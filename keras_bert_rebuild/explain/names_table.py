"""The names of weights, ours next to those of other libraries, for the terminal, as Markdown and as JSON."""

import json
from dataclasses import asdict

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

# Minimum width for both names side by side, not one below the other.
WIDE = 184


def names_as_table(rows, width):
    """The table for `rich`.

    Args:
        rows: from `weight_names`.
        width: of the terminal, in characters.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    if width >= WIDE:
        for name in ("ours", "shape", "theirs", "shape", "heads"):
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(
                row.path, _shape(row.shape), Text(row.name, style="cyan"), _shape(row.their_shape), Text(row.heads, style="dim")
            )
        return Group(Text(sentence_of(rows), style="bold"), Text(), table)
    table.add_column("ours, and below it theirs", overflow="fold")
    table.add_column("shape", no_wrap=True)
    for row in rows:
        text = Text.assemble(row.path, "\n", (row.name, "cyan"))
        if row.heads:
            text.append(f"\n{row.heads}", style="dim")
        table.add_row(text, f"{_shape(row.shape)}\n{_shape(row.their_shape)}")
        table.add_section()
    return Group(Text(sentence_of(rows), style="bold"), Text(), table)


def names_as_markdown(rows):
    """The same in Markdown."""
    lines = [sentence_of(rows), "", "| ours | shape | theirs | shape | heads |", "|:--|:--|:--|:--|:--|"]
    lines += [f"| {row.path} | {_shape(row.shape)} | {row.name} | {_shape(row.their_shape)} | {row.heads} |" for row in rows]
    return "\n".join(lines) + "\n"


def names_as_json(rows):
    """The same in JSON."""
    values = [{**asdict(row), "heads": row.heads} for row in rows]
    for value in values:
        if value["part"] is None:  # always, in formats without fused weights
            del value["part"]
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def sentence_of(rows):
    """The number of weights, and a note that one kernel holds all heads."""
    count = sum(row.parameters > 0 for row in rows)
    text = f"{count:,} weights, {sum(row.parameters for row in rows):,} parameters."
    split = [row for row in rows if row.head_axis is not None and row.path.endswith("query/kernel")]
    if split:
        heads = f"all {split[0].num_heads} heads" if split[0].num_heads > 1 else "the one head"
        text += f" A layer has one query, one key and one value kernel for {heads}: {split[0].heads}."
    seconds = len(rows) - count
    return text + (f" {seconds} more names, at the end, are aliases of tied weights." if seconds else "")


def _shape(shape):
    return "(" + ", ".join(f"{size:,}" for size in shape) + ("," if len(shape) == 1 else "") + ")"
