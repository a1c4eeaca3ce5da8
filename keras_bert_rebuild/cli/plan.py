"""`keras-bert plan`: will it fit, how fast, how many device hours, before a machine is rented."""

import json

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text


def run(args):
    """Print the plan and return the exit code."""
    from keras_bert_rebuild.recipes.planning.plan import BILLION, SETTINGS, plan

    args.seq_len = args.max_seq_length
    settings = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    topology = {name: getattr(args, name) for name in ("tpu", "gpus", "gpu", "cpu")}
    options = {name: getattr(args, name) for name in ("utilisation", "real_tokens", "compile", "measure", "vocab_size")}
    options |= {"packing": bool(args.packing), "tokens": BILLION if args.tokens is None else args.tokens}
    planned = plan(args.model, **topology, **options, **settings)
    if args.format == "json":
        print(json.dumps(planned.to_dict(), indent=2))
    else:
        print_plan(planned, args.model)
    return 0


BAR = 48
# Parts of the memory, how they are drawn, and their names.
PARTS = (
    ("parameters", "█", "blue", "weights"),
    ("optimizer", "▓", "cyan", "optimizer"),
    ("activations", "▒", "yellow", "stored for the backward pass"),
    ("working", "░", "magenta", "backward pass of one block, or the head"),
)


def print_plan(plan, model):
    """Print a plan.

    Args:
        plan: a `Plan`.
        model: the model as the user named it.
    """
    console = Console(highlight=False)
    console.print(f"[bold]{escape(model)}[/bold] on [bold]{plan.devices}[/bold]", soft_wrap=True)
    console.print(
        f"{plan.num_parameters:,} parameters, {plan.batch_size:,} examples of {plan.seq_len} tokens per step, "
        f"{plan.batch_per_device:,} per device at once, {plan.dtype}",
        soft_wrap=True,
    )
    console.print()
    console.print(_memory_table(plan))
    console.print(_bar(plan))
    console.print()
    console.print(_time_table(plan))
    refused = (f"The compiler: {plan.compiled['refused']}",) if plan.compiled and "refused" in plan.compiled else ()
    derived = f"Computation: {plan.derived_from}"
    for note in (*refused, *plan.notes, derived, f"Rates and memory: {plan.source}"):
        console.print(note, style="dim", markup=False, soft_wrap=True)


def _memory_table(plan):
    compiled, measured, memory = plan.compiled, plan.measured, plan.memory
    table = _table("memory of one device", "estimate", *(["compiler"] if compiled else ["measured"] if measured else []))
    for name, mark, style, words in PARTS:
        table.add_row(f"[{style}]{mark}[/{style}] {words}", _bytes(getattr(memory, name)))
    table.add_row("  gradients, where activations were", _bytes(memory.gradients), end_section=True)
    if compiled and "refused" in compiled:
        table.add_row("maximum at once", _bytes(memory.total), "does not fit")
    elif compiled:
        state = memory.parameters + memory.optimizer
        table.add_row("weights and optimizer", _bytes(state), _bytes(compiled["arguments"]))
        table.add_row("temporaries", _bytes(memory.total - state), _bytes(compiled["temporaries"]))
        table.add_row("maximum at once", _bytes(memory.total), _bytes(compiled["arguments"] + compiled["temporaries"]))
        if compiled["program"]:  # of a GPU nothing is said
            table.add_row("the program itself", "", _bytes(compiled["program"]))
    elif measured:
        for rows, size in zip(measured.rows, measured.bytes, strict=True):
            table.add_row(f"a step of {rows:,} examples", "", _bytes(size))
        table.add_row("maximum at once", _bytes(memory.total), _bytes(measured.total))
    else:
        table.add_row("maximum at once", _bytes(memory.total))
    table.add_row("available", _bytes(plan.available))
    verdict = "[green]fits[/green]" if plan.fits else "[red]does not fit[/red]"
    at_once = measured.total if measured else memory.total
    table.add_row(f"[bold]{verdict}[/bold]", f"[bold]{at_once / plan.available:.0%}[/bold]")
    table.add_row("largest batch that fits", f"{plan.largest_batch:,}" if plan.largest_batch else "none")
    return table


def _time_table(plan):
    table = _table("one step", "")
    compiled = plan.compiled or {}
    table.add_row("operations of all devices", _metric(plan.flops, "FLOP"))
    if compiled.get("flops"):
        table.add_row("as the compiler counts them", _metric(compiled["flops"] * plan.device_count, "FLOP"))
        table.add_row("gradients that it sums", _bytes(compiled["all_reduce"]))
    table.add_row(
        f"computed at an MFU of {plan.utilisation:.0%} of {_metric(plan.device_flops, 'FLOP/s')}", _seconds(plan.compute_seconds)
    )
    if plan.device_count > 1:
        table.add_row(f"{_bytes(plan.all_reduce_bytes)} of gradients summed over the devices", _seconds(plan.all_reduce_seconds))
    if plan.update_seconds:
        table.add_row("weights and optimizer read and written", _seconds(plan.update_seconds))
    table.add_row("together", f"[bold]{_seconds(plan.step_seconds)}[/bold]", end_section=True)
    padding = f", padding of {1 - plan.real_tokens:.0%} not counted" if plan.real_tokens < 1 else ""
    table.add_row(f"tokens per second{padding}", f"{plan.tokens_per_second:,.0f}")
    table.add_row(f"{plan.tokens:,} tokens, {plan.steps:,} steps", f"[bold]{_hours(plan.hours)}[/bold]")
    table.add_row("device hours", f"[bold]{plan.device_hours:,.1f}[/bold]")
    return table


def _table(first, *columns):
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, min_width=46)
    for column in columns:
        table.add_column(column, justify="right", min_width=12)
    return table


def _bar(plan):
    """A bar of the memory at once, to the scale of what is available; what does not fit is beyond the line."""
    whole = max(plan.available, plan.memory.total)
    ends, held = [], 0
    for name, mark, style, _ in PARTS:
        held += getattr(plan.memory, name)
        ends.append((round(BAR * held / whole), mark, style))
    edge, bar = round(BAR * plan.available / whole), Text()
    for column in range(BAR):
        mark, style = next(((m, s) for end, m, s in ends if column < end), ("·", "dim"))
        bar.append("│" if column == edge else "").append(mark, style)
    return bar.append("│" if edge == BAR else "")


def _bytes(number):
    return f"{number / 1e9:,.2f} GB" if number >= 1e8 else f"{number / 1e6:,.1f} MB"


def _metric(number, unit):
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G")):
        if number >= size:
            return f"{number / size:,.4g} {letter}{unit}"
    return f"{number:,.4g} {unit}"


def _seconds(number):
    return f"{number:,.2f} s" if number >= 1 else f"{number * 1e3:,.1f} ms"


def _hours(number):
    return f"{number / 24:,.1f} days" if number >= 48 else f"{number:,.1f} h" if number >= 1 else f"{number * 60:,.1f} min"
