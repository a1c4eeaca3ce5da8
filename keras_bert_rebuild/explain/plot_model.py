"""A model as a picture: all of it with its blocks folded into one, or one block opened."""

import os
from collections.abc import Sequence

import keras

from keras_bert_rebuild.anatomy.part import BLOCK, EMBEDDING, HEAD
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.diagram import Box, Diagram, Line, Words
from keras_bert_rebuild.explain.explanation import explain

WIDTH, MIDDLE = 760, 380
TALL, GAP = 52, 26
KINDS = {"Attention": "attention", "Feed-forward": "feed-forward", "Normalisation": "norm"}


def plot_model(
    model_or_config: keras.Model | BertConfig,
    heads: Sequence[str] | None = None,
    *,
    block: bool = False,
    path: str | os.PathLike[str] | None = None,
) -> Diagram:
    """Draw a model with the parameters of every step.

    Args:
        model_or_config: a `BertConfig`, for which no model is built, or a model.
        heads: of a config, as for `explain`.
        block: draw one encoder block with its inner products, and not the whole.
        path: also write it there, as SVG, or with matplotlib as PNG or PDF, by the ending.

    Returns:
        A `Diagram`; a notebook shows it.

    Raises:
        ValueError: as `explain`; or there is no block to draw.
        ImportError: an ending other than .svg, and no matplotlib.
    """
    explanation = explain(model_or_config, heads)
    if block and not explanation.config.num_hidden_layers:
        raise ValueError("a model must have an encoder block to draw one; num_hidden_layers is 0.")
    diagram = _block(explanation) if block else _whole(explanation)
    if path is not None:
        diagram.save(path)
    return diagram


def _whole(explanation):
    config = explanation.config
    of = {part: [step for step in explanation.steps if step.part == part] for part in (EMBEDDING, BLOCK, HEAD)}
    parts = [
        Words(40, 46, f"{config.family}, {explanation.total('params'):,} parameters", large=True),
    ]
    added = [step for step in of[EMBEDDING] if step.name.endswith("embedding")]
    wide = (WIDTH - 80 - 20 * (len(added) - 1)) / len(added)
    y = 78
    tables = [Box(40 + i * (wide + 20), y, wide, TALL, step.name, _detail(step), "embedding") for i, step in enumerate(added)]
    plus = Box(MIDDLE - 14, y + TALL + 30, 28, 28, "+")
    parts += [*tables, plus]
    for table in tables:
        if abs(table.centre - MIDDLE) < 1:
            parts.append(_down(table, plus))
        else:
            side = plus.x if table.centre < MIDDLE else plus.x + plus.width
            parts.append(Line(((table.centre, table.below), (table.centre, plus.y + 14), (side, plus.y + 14))))
    last = plus
    for step in of[EMBEDDING]:
        if step.name in ("Normalisation", "Widening"):
            last = _under(parts, last, step.name, _detail(step), "norm" if step.name == "Normalisation" else "embedding")
    if of[BLOCK]:
        last = _folded_blocks(parts, last, of[BLOCK])
    bottom = _heads(parts, last, of[HEAD]) if of[HEAD] else last.below
    return Diagram(WIDTH, bottom + 34, tuple(parts), f"The architecture of a {config.family} model")


def _folded_blocks(parts, above, steps):
    """One block in a frame for all of them, with the two ways around its halves."""
    runs = steps[0].runs
    top = above.below + GAP
    height = 34 + (TALL + GAP) * len(steps) + 4
    for shift in (10, 5, 0):
        parts.append(Box(150 + shift, top + shift, WIDTH - 300, height, kind="frame"))
    shared = "" if steps[0].blocks == runs else ", with the same weights"
    parts.append(Words(WIDTH - 164, top + 22, f"{runs} blocks, one after the other{shared}", end=True))
    last, begin = above, None
    for i, step in enumerate(steps):
        y = top + 34 + i * (TALL + GAP)
        box = Box(MIDDLE - 130, y, 260, TALL, step.name if i % 2 == 0 else "Add, then normalise", _detail(step), KINDS[step.name])
        parts += [box, _down(last, box)]
        if i % 2 == 0:
            begin = y - GAP / 2
        else:
            around = MIDDLE - 172
            parts.append(Line(((MIDDLE, begin), (around, begin), (around, y + TALL / 2), (box.x, y + TALL / 2))))
        last = box
    return Box(150, top, WIDTH - 300, height)


def _heads(parts, above, steps):
    """The heads in two columns, what is said of every token and what is said of the text; where the longer one ends."""
    of_tokens = [step for step in steps if step.layer.startswith(("MLM", "Token", "Question"))]
    columns = [column for column in (of_tokens, [step for step in steps if step not in of_tokens]) if column]
    wide, bottom = 260, above.below
    for i, column in enumerate(columns):
        x = MIDDLE - wide / 2 if len(columns) == 1 else (90, WIDTH - 90 - wide)[i]
        y = above.below + 2 * GAP
        last = None
        for step in column:
            box = Box(x, y, wide, TALL, step.name, _detail(step), "head")
            corners = (MIDDLE, above.below), (MIDDLE, above.below + GAP), (box.centre, above.below + GAP), (box.centre, y)
            parts += [box, Line(corners) if last is None else _down(last, box)]
            last, y = box, y + TALL + GAP
        bottom = max(bottom, last.below)
    return bottom


def _block(explanation):
    """One block: query, key and value, the heads, and the two widths of the feed-forward half."""
    config = explanation.config
    hidden, heads, inner = config.hidden_size, config.num_attention_heads, config.intermediate_size
    width = hidden // heads
    square, steps = hidden * hidden + hidden, [step for step in explanation.steps if step.part == BLOCK]
    each = sum(step.each for step in steps)
    parts = [Words(40, 46, f"One of {steps[0].runs} encoder blocks, {each:,} parameters", large=True)]
    came = Box(MIDDLE - 130, 78, 260, 34, f"{hidden} numbers a token")
    y = came.below + 2 * GAP
    thirds = [
        Box(105 + i * 190, y, 170, TALL, name, f"{hidden}·{hidden} + {hidden} = {square:,}", "attention")
        for i, name in enumerate(("Query", "Key", "Value"))
    ]
    look = Box(
        MIDDLE - 210, y + TALL + 2 * GAP, 420, TALL, "softmax(Q Kᵀ / √K) · V", f"{heads} heads of {width} side by side", "attention"
    )
    parts += [came, *thirds, look]
    for box in thirds:
        middle = came.below + GAP
        parts.append(Line(((MIDDLE, came.below), (MIDDLE, middle), (box.centre, middle), (box.centre, y))))
        parts.append(Line(((box.centre, box.below), (box.centre, look.y))))
    answer = _under(parts, look, "Output of the heads", f"{hidden}·{hidden} + {hidden} = {square:,}", "attention")
    first = _under(parts, answer, "Add, then normalise", f"2·{hidden} = {2 * hidden:,}", "norm")
    up = _under(
        parts,
        first,
        f"Wide, {_name(config.hidden_act)}",
        f"{hidden}·{inner} + {inner} = {hidden * inner + inner:,}",
        "feed-forward",
    )
    down = _under(parts, up, "Narrow again", f"{inner}·{hidden} + {hidden} = {inner * hidden + hidden:,}", "feed-forward")
    second = _under(parts, down, "Add, then normalise", f"2·{hidden} = {2 * hidden:,}", "norm")
    for begin, end, around in ((came.below + GAP / 2, first, 66), (first.below + GAP / 2, second, 190)):
        parts.append(Line(((MIDDLE, begin), (around, begin), (around, end.y + TALL / 2), (end.x, end.y + TALL / 2))))
    return Diagram(WIDTH, second.below + 40, tuple(parts), "An encoder block")


def _under(parts, above, title, detail, kind):
    box = Box(MIDDLE - 130, above.below + GAP, 260, TALL, title, detail, kind)
    parts += [box, _down(above, box)]
    return box


def _down(above, below):
    return Line(((below.centre, above.below), (below.centre, below.y)))


def _detail(step):
    return f"{step.formula} = {step.each:,}"


def _name(activation):
    return activation if isinstance(activation, str) else getattr(activation, "__name__", "activation")
