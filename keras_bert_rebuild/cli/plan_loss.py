"""`keras-bert plan --loss`: a scaling law from finished runs, as tables."""

from pathlib import Path

from rich import box
from rich.table import Table

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.recipes.planning.loss_plan import NAMES


def print_loss_plan(planned, console):
    """Print a `LossPlan`: its runs, the law, and what it says of models."""
    console.print(_runs_table(planned))
    console.print()
    console.print(_law_table(planned.fitted))
    console.print()
    console.print(f"On {planned.devices}:")
    console.print(_models_table(planned))
    if planned.best is not None:
        console.print(f"The least loss in this time: [bold]{planned.best}[/bold].")
    if planned.optimal is not None:
        low, high = planned.optimal["interval"]
        size = f"{planned.optimal['parameters']:.3g} parameters ({low:.2g} to {high:.2g})"
        rest = f"{planned.optimal['tokens']:.3g} tokens, for {planned.optimal['operations']:.3g} operations."
        console.print(f"Compute-optimal by the law: {size} and {rest}", soft_wrap=True)
    for note in planned.notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)


def _runs_table(planned):
    table = _table("run", "parameters", "tokens", "held out", "law", "without it")
    law = planned.fitted.law
    for run, without in zip(planned.runs, planned.fitted.without, strict=True):
        losses = (run.loss, float(law.loss(run.parameters, run.tokens)), without)
        name = printable(Path(run.folder).name)
        table.add_row(name, f"{run.parameters:,}", f"{run.tokens:,}", *(f"{loss:.3f}" for loss in losses))
    return table


def _law_table(fitted):
    terms = [text for text, has in zip(("A / N^α", "B / D^β"), fitted.law.terms, strict=True) if has]
    table = _table(" + ".join(["L = E", *terms]), "fit", "nine tenths of such fits")
    for name, letter in NAMES.items():
        if (value := getattr(fitted.law, name)) is not None:
            low, high = fitted.interval_of(name)
            table.add_row(letter, f"{value:.4g}", f"{low:.3g} to {high:.3g}")
    return table


def _models_table(planned):
    table = _table("model", "parameters", "tokens", "passes", "loss", "nine tenths", "time")
    for row in planned.rows:
        loss, interval = "-", "too far"
        if row.loss is not None:
            loss, interval = f"{row.loss:.3f}", f"{row.low:.3f} to {row.high:.3f}"
        time = hours_words(row.hours) if row.fits else "does not fit"
        passes = f"{row.passes:,.2g}" if row.passes < 10 else f"{row.passes:,.0f}"
        table.add_row(row.model, f"{row.parameters:,}", f"{row.tokens:,}", passes, loss, interval, time)
    return table


def hours_words(number):
    """A time in hours, in the unit that fits it."""
    sizes = ((48, 24, "days"), (1, 1, "h"), (1 / 60, 1 / 60, "min"), (0, 1 / 3600, "s"))
    unit, word = next((unit, word) for least, unit, word in sizes if number >= least)
    return f"{number / unit:,.1f} {word}"


def _table(first, *columns):
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
