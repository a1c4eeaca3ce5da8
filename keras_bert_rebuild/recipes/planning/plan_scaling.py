"""The predicted scaling of a pretraining over the chips of a TPU."""

import math
from dataclasses import dataclass

from keras_bert_rebuild.recipes.planning.plan import plan
from keras_bert_rebuild.recipes.planning.plan_devices import SLICES
from keras_bert_rebuild.recipes.planning.plan_result import Plan

# Model, tokens of an example, examples: "a chip" on each chip, "in all" on all of them.
DOCUMENTED = (
    ("base", 128, 64, "a chip"),
    ("large", 128, 64, "a chip"),
    ("base", 512, 256, "in all"),
    ("large", 512, 256, "in all"),
)
COLUMNS = ("slice", "chips", "examples", "memory", "products", "update", "sent", "sum", "step", "tokens/s", "efficiency")


@dataclass(frozen=True)
class ScalingRow:
    """A slice, and the prediction for a step on it."""

    chips: int
    """Chips of the slice."""

    slice: str
    """Their number along each axis."""

    plan: Plan
    """The plan of this slice."""

    sent_bytes: float
    """The bytes that each chip sends in the all-reduce of the gradients: 2 (n − 1)/n times their size."""

    efficiency: float
    """Tokens per second and chip, as a fraction of those on the smallest slice."""


def predicted_scaling(model, tpu="v5e", *, batch_per_chip=None, batch_size=None, utilisation=None, **settings):
    """Predict a step on every slice of a TPU that the examples can be split over.

        step(n) = products(n) + sum(n) + update            efficiency(n) = tokens/s(n) / (n · tokens/s(m) / m)

    with the times of `Plan`, without overlap; a compiler that overlaps computation with the all-reduce does better. The smallest
    slice has m chips: one, or four on v4 and v5p.

    Args:
        model: as for `plan`.
        tpu: a chip, such as "v5e".
        batch_per_chip, batch_size: one of the two: examples per chip, or in total.
        utilisation: as for `plan`.
        **settings: as for `plan`.

    Returns:
        A list of `ScalingRow`, one for each slice, smallest first.
    """
    rows = []
    for shape in SLICES[tpu]:
        chips, text = math.prod(shape), "x".join(map(str, shape))
        batch = batch_size or batch_per_chip * chips
        if batch % chips:
            break
        predicted = plan(model, tpu=f"{tpu}:{text}", batch_size=batch, utilisation=utilisation, **settings)
        alone = rows[0].plan.tokens_per_second / rows[0].chips if rows else predicted.tokens_per_second / chips
        sent = 2 * (chips - 1) / chips * predicted.all_reduce_bytes
        rows.append(ScalingRow(chips, text, predicted, sent, predicted.tokens_per_second / (chips * alone)))
    return rows


def scaling_tables(tpu="v5e"):
    """The tables of docs/distribution.md as Markdown: BERT-base and large in bfloat16 on every slice."""
    return "\n\n".join(_markdown(tpu, *documented) for documented in DOCUMENTED)


def _markdown(tpu, model, seq_len, examples, of):
    batch = {"batch_per_chip" if of == "a chip" else "batch_size": examples}
    rows = predicted_scaling(model, tpu, seq_len=seq_len, dtype="mixed_bfloat16", **batch)
    lines = [
        f"BERT-{model}, {examples} examples {of}, {seq_len} tokens each:",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---:|' * len(COLUMNS)}",
    ]
    for row in rows:
        held = f"{row.plan.memory.total / 1e9:.1f} GB"
        times = (row.plan.compute_seconds, row.plan.update_seconds, row.plan.all_reduce_seconds, row.plan.step_seconds)
        products, update, summed, step = (f"{seconds * 1e3:,.1f} ms" for seconds in times)
        cells = (
            row.slice,
            f"{row.chips}",
            f"{row.plan.batch_size:,}",
            held if row.plan.fits else f"**{held}**",
            products,
            update,
            f"{row.sent_bytes / 1e6:,.0f} MB",
            summed,
            step,
            f"{row.plan.tokens_per_second:,.0f}",
            f"{row.efficiency:.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
