"""A comparison as tables for the terminal, as Markdown and as JSON."""

from dataclasses import asdict

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from keras_bert_rebuild.explain.anatomy_words import CHANGED, ONLY_FIRST, ONLY_SECOND, SAME
from keras_bert_rebuild.explain.explain_table import batch_of, short, title_of
from keras_bert_rebuild.explain.record import NUMBER, make_table

# The numbers shown for a model or step, and their units.
AMOUNTS = (("params", ""), ("train", "FLOP"), ("memory", "B"))

# The sign and colour of a step's status.
SIGNS = {SAME: ("=", "dim"), CHANGED: ("~", "yellow"), ONLY_FIRST: ("-", "red"), ONLY_SECOND: ("+", "green")}
LEGEND = "= same, ~ changed, - only in A, + only in B. B : A is the number of B divided by that of A."
OF_AMOUNTS = (
    "operations: FLOPs of matrix products in a training step. memory: weights, gradients, the two moments of Adam, and activations "
    "saved for the backward pass, without fused attention or rematerialisation."
)
TITLES = {"params": "parameters", "train": "operations", "memory": "memory"}
UNCHANGED = "No changes: both have the same anatomy and the same steps."


def as_tables(comparison, width):
    """The tables for `rich`: totals, changes in words, and steps.

    Args:
        comparison: a `Comparison`.
        width: of the terminal, in characters; lines wrap by themselves.
    """
    titles = [Text.assemble((letter, "bold cyan"), f"  {title}") for letter, title in zip("AB", _titles(comparison), strict=True)]
    if not _differs(comparison):
        return Group(*titles, Text(f"\n{UNCHANGED}", style="bold green"))
    parts = [
        *titles,
        Text(f"\n{_batch(comparison)}", style="bold yellow"),
        _totals(comparison),
        Padding(Text(OF_AMOUNTS, "dim"), (1, 0)),
    ]
    if comparison.changes:
        table = make_table(("what changed", {"style": "bold"}), ("A", {"ratio": 1, "overflow": "fold"}), ("B", {"ratio": 1}))
        table.expand = True
        for change in comparison.changes:
            table.add_row(Text(change.subject), Text(change.first), Text(change.second))
        parts += [table, Text()]
    return Group(*parts, *(_steps(comparison, name, unit) for name, unit in AMOUNTS), Text(LEGEND, "dim"))


def as_markdown(comparison):
    """The tables of a comparison in Markdown."""
    lines = [f"**{letter}** {title}  " for letter, title in zip("AB", _titles(comparison), strict=True)]
    if not _differs(comparison):
        return "\n".join([*lines, "", UNCHANGED]) + "\n"
    lines += ["", f"**{_batch(comparison)}**", "", "| | A | B | B : A |", "|:--|--:|--:|--:|"]
    lines += [f"| {TITLES[name]} | {' | '.join(_row(comparison.totals(name), unit))} |" for name, unit in AMOUNTS]
    lines += ["", OF_AMOUNTS]
    if comparison.changes:
        lines += ["", "| what changed | A | B |", "|:--|:--|:--|"]
        lines += [f"| {change.subject} | {change.first} | {change.second} |" for change in comparison.changes]
    heads = [f"{TITLES[name]} {letter}" for name, _ in AMOUNTS for letter in ("A", "B", "B : A")]
    lines += ["", f"| | | step | {' | '.join(heads)} |", f"|:-:|--:|:--{'|--:' * len(heads)}|"]
    for step in comparison.steps:
        numbers = [cell for name, unit in AMOUNTS for cell in _row(step.amounts(name), unit)]
        lines.append(f"| {SIGNS[step.status][0]} | {step.article or ''} | {step.name} | {' | '.join(numbers)} |")
    return "\n".join([*lines, "", LEGEND]) + "\n"


def comparison_values(comparison):
    """The numbers and words of a comparison as a dictionary for JSON, without rounding."""
    names = ("params", "bytes", "forward", "train", "kept", "memory")
    sides = [
        {"name": name, **explanation.to_json()}
        for name, explanation in zip(comparison.names, (comparison.first, comparison.second), strict=True)
    ]
    return {
        "A": sides[0],
        "B": sides[1],
        "totals": {name: comparison.totals(name) for name in names},
        "ratios": {name: comparison.ratio(name) for name in names},
        "changes": [asdict(change) for change in comparison.changes],
        "steps": [
            {
                "role": step.role,
                "part": step.part,
                "name": step.name,
                "status": step.status,
                **{name: step.amounts(name) for name in names},
            }
            for step in comparison.steps
        ],
    }


def _differs(comparison):
    return bool(comparison.changes) or any(step.status != SAME for step in comparison.steps)


def _titles(comparison):
    explained = zip(comparison.names, (comparison.first, comparison.second), strict=True)
    return [
        f"{name} · {title_of(explanation)}" if name != explanation.config.family else title_of(explanation)
        for name, explanation in explained
    ]


def _batch(comparison):
    """The batch of both, and both dtypes if they differ."""
    words, other = batch_of(comparison.first), comparison.second.dtype
    return words if comparison.first.dtype == other else f"{words} for A, {other} for B"


def _row(amounts, unit):
    """Both numbers and their ratio as cells: parameters in full, others abbreviated, 0 as an empty cell."""
    cells = [("" if not amount else f"{amount:,}" if not unit else short(amount, unit)) for amount in amounts]
    return [*cells, f"{amounts[1] / amounts[0]:.2f}" if all(amounts) else ""]


def _totals(comparison):
    table = make_table(("", {}), ("A", NUMBER), ("B", NUMBER), ("B : A", NUMBER))
    for name, unit in AMOUNTS:
        table.add_row(Text(TITLES[name]), *_row(comparison.totals(name), unit))
    return table


def _steps(comparison, name, unit):
    """One amount of every step that has it in A or B."""
    table = make_table(("", {}), ("", NUMBER), (TITLES[name], {"min_width": 22}), ("A", NUMBER), ("B", NUMBER), ("B : A", NUMBER))
    for step in comparison.steps:
        if any(step.amounts(name)) or (name == "params" and step.status != SAME):
            sign, colour = SIGNS[step.status]
            table.add_row(Text(sign, colour), str(step.article or ""), Text(step.name, colour), *_row(step.amounts(name), unit))
    table.add_section()
    table.add_row("", "", *(Text(text, style="bold green") for text in ("all", *_row(comparison.totals(name), unit))))
    return Group(table, Text())
