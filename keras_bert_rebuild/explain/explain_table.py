"""An explanation as tables for the terminal."""

import itertools
from dataclasses import asdict

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from keras_bert_rebuild.anatomy.part import BLOCK, LETTERS
from keras_bert_rebuild.explain.record import NUMBER, make_table

# Minimum widths for a bar next to every share, and for letters in two columns.
WIDE, WIDEST = 96, 116
BAR = 16

# Total width of the other columns in the table of parameters.
OTHER_COLUMNS = 32

OF_WORK = (
    "forward, training: FLOPs of matrix products. activations: saved by a training step for its backward pass, without fused "
    "attention or rematerialisation."
)

PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def as_tables(explanation, width):
    """The tables for `rich`: letters, parameters, work, corrections.

    Args:
        explanation: an `Explanation`.
        width: of the terminal, in characters.
    """
    return Group(
        _title(explanation),
        Padding(_letters(explanation, width), (1, 0)),
        _parameters(explanation, width),
        Text(f"\n{batch_of(explanation)}", style="bold yellow"),
        _work(explanation),
        Padding(Text(OF_WORK, style="dim"), (1, 0, 0, 0)),
        *_corrections(explanation),
    )


def short(number, unit=""):
    """A number with one decimal and a prefix: 109.7 M, 22.4 GFLOP; numbers below 1,000 unchanged.

    Example:

    >>> short(109705010), short(1536, "B"), short(12)
    ('109.7 M', '1.5 kB', '12')
    """
    for size, prefix in PREFIXES:
        if number >= size:
            return f"{number / size:,.1f} {prefix}{unit}"
    return f"{number:,} {unit}".rstrip()


def percent(share):
    """A fraction in per cent, with enough digits not to be 0: 25.8 %, 0.01 %."""
    return f"{100 * share:.1f} %" if share >= 0.0005 or not share else f"{100 * share:.2g} %" if share >= 1e-5 else "< 0.001 %"


def title_of(explanation):
    """What is explained, in one line: family, heads, parameters."""
    heads = f"with {', '.join(explanation.heads)}" if explanation.heads else "without heads"
    return f"{explanation.config.family} {heads}: {explanation.total('params'):,} parameters"


def batch_of(explanation):
    """The batch that operations and activations are given for, in words."""
    letters = explanation.letters
    texts = f"{letters['B']:,} text{'s' if letters['B'] > 1 else ''} of {letters['S']:,} tokens"
    predicted = f", {letters['N']:,} of them predicted" if "mlm" in explanation.heads and letters["N"] < letters["S"] else ""
    return f"{texts}{predicted}, {explanation.dtype}"


def letters_in_use(explanation):
    """The letters in the formulas of the explanation, with their numbers and meanings."""
    formulas = " ".join(f"{step.formula} {step.flops_formula}" for step in explanation.steps)
    used = set(formulas.replace("(", "").replace(")", "").replace("/", " ").replace("·", " ").split()) | {"A", "L", "S"}
    return [
        (letter, explanation.letters[letter], meaning) for letter, meaning in LETTERS if letter in used & explanation.letters.keys()
    ]


def parts_of(explanation):
    """The steps grouped by part: pairs of a heading and the steps."""
    for part, steps in itertools.groupby(explanation.steps, key=lambda step: step.part):
        steps = list(steps)
        heading = part
        if part == BLOCK:
            blocks, runs = (max(getattr(step, name) for step in steps) for name in ("blocks", "runs"))  # the first may lack a norm
            heading = f"{part} × {blocks:,}" if blocks == runs else f"{part} × {blocks:,}, run {runs:,} times"
        yield heading, steps


def _title(explanation):
    return Text(title_of(explanation), style="bold")


def _letters(explanation, width):
    columns = 2 if width >= WIDEST else 1
    cells = [
        Text.assemble((letter, "bold cyan"), f" = {number:,}  ", (meaning, "dim"))
        for letter, number, meaning in letters_in_use(explanation)
    ]
    grid = Table.grid(padding=(0, 4))
    rows = -(-len(cells) // columns)
    for i in range(rows):
        grid.add_row(*cells[i::rows])
    return grid


def _parameters(explanation, width):
    wide = width >= WIDE
    table = make_table(("", NUMBER), ("step", {"ratio": 1, "overflow": "fold"}), ("parameters", NUMBER), ("share", NUMBER))
    if wide:
        table.add_column("", no_wrap=True, min_width=BAR)
    table.expand = True
    all_of = explanation.total("params")
    largest = max((step.share for step in explanation.steps), default=0) or 1
    for heading, steps in parts_of(explanation):
        total = sum(step.params for step in steps)
        table.add_row("", *(Text(text, style="bold yellow") for text in (heading, f"{total:,}", percent(total / all_of))))
        for step in steps:
            bar = [Text("█" * round(BAR * step.share / largest), style="cyan")] if wide else []
            share = percent(step.share) if step.params else ""
            table.add_row(
                _number(step),
                _step(step, width - (OTHER_COLUMNS + BAR + 3 if wide else OTHER_COLUMNS)),
                f"{step.params:,}",
                share,
                *bar,
            )
        table.add_section()
    table.add_row("", *(Text(text, style="bold green") for text in ("all", f"{all_of:,}", "100 %")))
    return table


def _number(step):
    return "" if step.article is None else str(step.article)


def _step(step, room):
    """A step with its formula and numbers, on one line if they fit."""
    text = Text(step.name)
    if not (step.params and step.formula):
        return text
    formula, numbers = f"\n{step.formula}", "" if step.numbers == f"{step.each:,}" else f"= {step.numbers}"
    text.append(formula, style="cyan")
    text.append((" " if len(formula) + len(numbers) <= room else "\n") + numbers, style="dim")
    if step.blocks > 1:
        text.append(f"\n= {step.each:,} in each of {step.blocks:,} blocks", style="dim")
    return text


def _work(explanation):
    columns = (("weights", NUMBER), ("forward", NUMBER), ("training", NUMBER), ("activations", NUMBER))
    table = make_table(("", NUMBER), ("step", {}), *columns)
    for _, steps in parts_of(explanation):
        for step in steps:
            table.add_row(_number(step), Text(step.name), *amounts_of(step))
        table.add_section()
    table.add_row("", *(Text(text, style="bold green") for text in ("all", *amounts_of(explanation))))
    return table


def amounts_of(of):
    """Bytes of weights, operations of forward pass and training step, and bytes of activations, of a step or in total."""
    get = of.total if hasattr(of, "total") else lambda name: getattr(of, name)
    units = (("bytes", "B"), ("forward", "FLOP"), ("train", "FLOP"), ("kept", "B"))
    return [short(get(name), unit) if get(name) else "" for name, unit in units]


def _corrections(explanation):
    if explanation.corrections:
        yield Text("\nCorrections of articles and differences from them", style="bold yellow")
    for sentence in explanation.corrections:
        yield Padding(Text(sentence), (0, 0, 0, 2))


def as_markdown(explanation):
    """The tables of an explanation in Markdown."""
    lines = [f"**{title_of(explanation)}**", "", "| letter | value | meaning |", "|:--|--:|:--|"]
    lines += [f"| {letter} | {number:,} | {meaning} |" for letter, number, meaning in letters_in_use(explanation)]
    lines += ["", "| | step | formula | numbers | parameters | share |", "|--:|:--|:--|:--|--:|--:|"]
    for heading, steps in parts_of(explanation):
        total = sum(step.params for step in steps)
        lines.append(f"| | **{heading}** | | | **{total:,}** | **{percent(total / explanation.total('params'))}** |")
        for step in steps:
            numbers = step.numbers if step.params else ""
            if step.blocks > 1:
                numbers += f" = {step.each:,} in each of {step.blocks:,}"
            share = percent(step.share) if step.params else ""
            lines.append(f"| {step.article or ''} | {step.name} | {step.formula} | {numbers} | {step.params:,} | {share} |")
    lines += [f"| | **all** | | | **{explanation.total('params'):,}** | **100 %** |", "", f"**{batch_of(explanation)}**", ""]
    lines += ["| | step | operations | weights | forward | training | activations |", "|--:|:--|:--|--:|--:|--:|--:|"]
    for step in explanation.steps:
        operations = "" if not step.forward else f"{step.runs:,} · ({step.flops_formula})" if step.runs > 1 else step.flops_formula
        lines.append(f"| {step.article or ''} | {step.name} | {operations} | {' | '.join(amounts_of(step))} |")
    totals = " | ".join(f"**{amount}**" if amount else "" for amount in amounts_of(explanation))
    lines += [f"| | **all** | | {totals} |", "", OF_WORK]
    if explanation.corrections:
        lines += [
            "",
            "Corrections of articles and differences from them:",
            "",
            *(f"- {sentence}" for sentence in explanation.corrections),
        ]
    return "\n".join(lines) + "\n"


def explanation_values(explanation):
    """The numbers of an explanation as a dictionary for JSON."""
    totals = {name: explanation.total(name) for name in ("params", "bytes", "forward", "train", "kept")}
    config = {name: getattr(value, "__name__", value) for name, value in asdict(explanation.config).items()}  # functions by name
    return {
        "config": config,
        "heads": list(explanation.heads),
        "dtype": explanation.dtype,
        "letters": explanation.letters,
        "totals": totals,
        "steps": [asdict(step) for step in explanation.steps],
        "corrections": list(explanation.corrections),
    }
