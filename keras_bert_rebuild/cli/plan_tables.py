"""A plan as tables on the terminal, and a bar of the memory."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

BAR = 48
# Parts of the memory, how they are drawn and what they are called.
PARTS = (
    ("parameters", "█", "blue", "weights"),
    ("optimizer", "▓", "cyan", "optimizer"),
    ("activations", "▒", "yellow", "kept for the backward pass"),
    ("working", "░", "magenta", "backward pass of one block, or the head"),
)


def print_plan(plan, model):
    """Print a plan.

    Args:
        plan: a `Plan`.
        model: what the user called the model.
    """
    console = Console(highlight=False)
    console.print(f"[bold]{escape(model)}[/bold] on [bold]{plan.devices}[/bold]", soft_wrap=True)
    console.print(
        f"{plan.num_parameters:,} parameters, {plan.batch_size:,} examples of {plan.seq_len} tokens a step, "
        f"{plan.batch_per_device:,} a device at once, {plan.dtype}",
        soft_wrap=True,
    )
    console.print()
    console.print(_memory_table(plan))
    console.print(_bar(plan))
    console.print()
    console.print(_time_table(plan))
    refused = (f"The compiler: {plan.compiled['refused']}",) if plan.compiled and "refused" in plan.compiled else ()
    for note in (*refused, *plan.notes, f"Rates and memory: {plan.source}"):
        console.print(note, style="dim", markup=False, soft_wrap=True)


def _memory_table(plan):
    said, memory = plan.compiled, plan.memory
    table = _table("memory of one device", "estimate", *(["compiler"] if said else []))
    for name, mark, style, words in PARTS:
        table.add_row(f"[{style}]{mark}[/{style}] {words}", _bytes(getattr(memory, name)))
    table.add_row("  gradients, where activations were", _bytes(memory.gradients), end_section=True)
    if said and "refused" in said:
        table.add_row("most at once", _bytes(memory.total), "does not fit")
    elif said:
        state = memory.parameters + memory.optimizer
        table.add_row("weights and optimizer", _bytes(state), _bytes(said["arguments"]))
        table.add_row("what comes and goes", _bytes(memory.total - state), _bytes(said["temporaries"]))
        table.add_row("most at once", _bytes(memory.total), _bytes(said["arguments"] + said["temporaries"]))
        table.add_row("the program itself", "", _bytes(said["program"]))
    else:
        table.add_row("most at once", _bytes(memory.total))
    table.add_row("there is", _bytes(plan.available))
    verdict = "[green]fits[/green]" if plan.fits else "[red]does not fit[/red]"
    table.add_row(f"[bold]{verdict}[/bold]", f"[bold]{memory.total / plan.available:.0%}[/bold]")
    table.add_row("largest batch that fits", f"{plan.largest_batch:,}" if plan.largest_batch else "none")
    return table


def _time_table(plan):
    table = _table("one step", "")
    said = plan.compiled or {}
    table.add_row("operations of all devices", _metric(plan.flops, "FLOP"))
    if said.get("flops"):
        table.add_row("as the compiler counts them", _metric(said["flops"] * plan.device_count, "FLOP"))
        table.add_row("gradients that it sums", _bytes(said["all_reduce"]))
    table.add_row(f"computed at {plan.utilisation:.0%} of {_metric(plan.device_flops, 'FLOP/s')}", _seconds(plan.compute_seconds))
    if plan.device_count > 1:
        table.add_row(f"{_bytes(plan.all_reduce_bytes)} of gradients summed over the devices", _seconds(plan.all_reduce_seconds))
    if plan.update_seconds:
        table.add_row("weights and optimizer read and written", _seconds(plan.update_seconds))
    table.add_row("together", f"[bold]{_seconds(plan.step_seconds)}[/bold]", end_section=True)
    table.add_row("tokens per second", f"{plan.tokens_per_second:,.0f}")
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
    """What is held at once, to the scale of what there is; what does not fit stands behind the wall."""
    whole = max(plan.available, plan.memory.total)
    ends, held = [], 0
    for name, mark, style, _ in PARTS:
        held += getattr(plan.memory, name)
        ends.append((round(BAR * held / whole), mark, style))
    wall, bar = round(BAR * plan.available / whole), Text()
    for place in range(BAR):
        mark, style = next(((m, s) for end, m, s in ends if place < end), ("·", "dim"))
        bar.append("│" if place == wall else "").append(mark, style)
    return bar.append("│" if wall == BAR else "")


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
