"""An explanation as Markdown and as JSON."""

import json
from dataclasses import asdict

from keras_bert_rebuild.explain.explain_table import OF_WORK, amounts_of, batch_of, letters_in_use, parts_of, percent, title_of


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


def as_json(explanation):
    """The numbers of an explanation as JSON, without rounding."""
    return json.dumps(explanation_values(explanation), indent=2, ensure_ascii=False) + "\n"


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
