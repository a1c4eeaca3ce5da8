"""A model as a diagram: the whole model with its blocks folded into one, or one block in detail."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import keras

from keras_bert_rebuild.anatomy.block_parts import block_parts
from keras_bert_rebuild.anatomy.heads import POOLER
from keras_bert_rebuild.anatomy.part import ATTENTION, BLOCK, CONVOLUTION, EMBEDDING, HEAD, filled_in, formula_of, value
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.drawing import Box, Diagram, Line, Words
from keras_bert_rebuild.explain.explanation import explain
from keras_bert_rebuild.models.encoder_blocks import HALVES, BlockLayers, Half, run_block

WIDTH, MIDDLE = 760, 380
TALL, GAP = 52, 26


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
        heads: heads of a config, see `explain`.
        block: draw one encoder block in detail instead of the whole model.
        path: also write an SVG, or with matplotlib a PNG or PDF, depending on the suffix.

    Returns:
        A `Diagram`; a notebook shows it.

    Raises:
        ValueError: as `explain`; or there is no block to draw.
        ImportError: the suffix is not .svg, and matplotlib is not installed.
    """
    explanation = explain(model_or_config, heads)
    if block and not explanation.config.num_hidden_layers:
        raise ValueError("a model must have an encoder block to draw one; num_hidden_layers is 0.")
    diagram = _block(explanation) if block else _whole(explanation)
    if path is not None:
        diagram.save(path)
    return diagram


def _whole(explanation):
    config, encoder = explanation.config, explanation.config.encoder()
    of = {part: [step for step in explanation.steps if step.part == part] for part in (EMBEDDING, BLOCK, HEAD)}
    parts = [Words(40, 46, f"{config.family}, {explanation.total('params'):,} parameters", large=True)]
    added = [step for step in of[EMBEDDING] if step.name.endswith(("embedding", "encoding"))]
    scale = encoder.embedding.scale
    if scale != 1:
        added[0] = replace(added[0], name=f"{added[0].name} × {scale:.4g}")
    room = WIDTH - 80 if len(added) > 1 else 260
    wide = (room - 20 * (len(added) - 1)) / len(added)
    x, y = MIDDLE - room / 2, 78
    tables = [Box(x + i * (wide + 20), y, wide, TALL, step.name, _detail(step), "embedding") for i, step in enumerate(added)]
    plus = Box(MIDDLE - 14, y + TALL + 30, 28, 28, "+")
    parts += [*tables, plus] if len(tables) > 1 else tables
    for table in tables if len(tables) > 1 else ():
        if abs(table.centre - MIDDLE) < 1:
            parts.append(_down(table, plus))
        else:
            side = plus.x if table.centre < MIDDLE else plus.x + plus.width
            parts.append(Line(((table.centre, table.below), (table.centre, plus.y + 14), (side, plus.y + 14))))
    last = plus if len(tables) > 1 else tables[0]
    for step in of[EMBEDDING]:
        if step.name in ("Normalisation", "Widening"):
            last = _under(parts, last, step.name, _detail(step), "norm" if step.name == "Normalisation" else "embedding")
    for i, step in enumerate(reversed([step for step in of[EMBEDDING] if step.name.endswith("of distances")])):
        parts.append(Box(WIDTH - 190, last.y - i * (TALL + GAP), 170, TALL, step.name, _detail(step), "embedding"))
    if encoder.blocks:
        last = _folded_blocks(parts, last, encoder, of[BLOCK])
    for step in of[BLOCK]:
        if "{n}" not in step.layer:
            last = _under(parts, last, step.name, _detail(step), "norm")
    present = [encoder.heads[name] for name in explanation.heads]
    of_text, of_tokens = (
        {part.layer for head in present if head.is_per_text is per_text for part in head.parts} for per_text in (True, False)
    )
    of_text = {POOLER, *of_text - of_tokens}
    bottom = _heads(parts, last, of[HEAD], of_text) if of[HEAD] else last.below
    return Diagram(WIDTH, bottom + 34, tuple(parts), f"The architecture of a {config.family} model")


def _folded_blocks(parts, above, encoder, steps):
    """One block, in a frame that represents all of them; full and windowed attention are drawn once."""
    runs_of = {layer: sum(step.runs for step in steps if step.layer == layer) for layer in {step.layer for step in steps}}
    steps = {step.layer: step for step in steps}
    runs, top = len(encoder.blocks), above.below + GAP
    inside = []

    def detail(part):
        times = runs_of[part.layer]
        return _detail(steps[part.layer]) + (f", in {times} of {runs} blocks" if times < runs else "")

    def draw(x, part):
        return _under(inside, x, steps[part.layer].name, detail(part), "attention" if ATTENTION in part.layer else "feed-forward")

    entrance = Box(MIDDLE - 130, top + 34 - GAP, 260, 0)
    last = _draw_block(inside, inside, _fullest(encoder), entrance, draw, detail, (MIDDLE - 172, MIDDLE - 172, MIDDLE + 200))
    inside[1] = _down(above, inside[0])
    frame = Box(150, top, WIDTH - 300, last.below + GAP + 4 - top, kind="frame")
    parts += [replace(frame, x=frame.x + shift, y=frame.y + shift) for shift in (10, 5, 0)]
    shared = "" if len(encoder.distinct) == runs else ", with the same weights"
    parts += [Words(WIDTH - 164, top + 22, f"{runs} blocks{shared}", end=True), *inside]
    return frame


def _heads(parts, above, steps, of_text):
    """The heads in two columns, those per token and those per text; returns the lower end of the longer column."""
    columns = [column for per_text in (False, True) if (column := [step for step in steps if (step.layer in of_text) == per_text])]
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
    """One block: query, key and value, the heads, and both layers of the feed-forward network."""
    encoder, letters = explanation.config.encoder(), explanation.letters
    block, runs = _fullest(encoder), len(encoder.blocks)
    each = sum(part.count(letters) for part in block_parts(block))
    alike = len({replace(other, number=1) for other in encoder.blocks}) == 1
    which = f"One of {runs} encoder blocks" if alike else f"Encoder block {block.number} of {runs}"
    entry = Box(MIDDLE - 130, 78, 260, 34, f"{encoder.width} values per token")
    parts, ways = [Words(40, 46, f"{which}, {each:,} parameters", large=True), entry], []

    def counted(weights):
        formula = formula_of(weights)
        return f"{filled_in(formula, letters).replace(',', '')} = {value(formula, letters):,}"

    def draw(x, part):
        details = {}
        for weight in part.weights:
            details.setdefault(weight.role.partition("/")[0], []).append(weight)
        details = {module: counted(weights) for module, weights in details.items()}
        return (_attention if ATTENTION in part.layer else _feed_forward)(parts, x, block, encoder.width, details)

    last = _draw_block(parts, ways, block, entry, draw, lambda part: counted(part.weights), (66, 190, WIDTH - 60))
    return Diagram(WIDTH, last.below + 40, (*parts, *ways), "An encoder block")


def _attention(parts, x, block, hidden, details):
    heads, rotary, window = len(block.attention.present), block.attention.rotary, block.attention.window
    names = ("Query", "Key", "Value")
    thirds = [
        Box(105 + i * 190, x.below + 2 * GAP, 170, TALL, name, details[name.lower()], "attention") for i, name in enumerate(names)
    ]
    detail = f"{heads} heads of width {hidden // block.attention.heads}"
    detail += (", rotated by position" if rotary else "") + ("" if window is None else f", within {window} tokens")
    relative = block.attention.relative
    terms = 1 if relative is None else 1 + len(relative.terms)
    formula = "softmax(Q Kᵀ / √K) · V" if terms == 1 else f"softmax((Q Kᵀ + distances) / √({terms}·K)) · V"
    if relative is not None and relative.kind == "relative":
        formula = "softmax((Q Kᵀ + distances + segments) / √K) · V"
    look = Box(MIDDLE - 210, thirds[0].below + 2 * GAP, 420, TALL, formula, detail, "attention")
    _side_by_side(parts, x, thirds, look)
    return _under(parts, look, "Output projection", details["output"], "attention")


def _feed_forward(parts, x, block, hidden, details):
    act = _name(block.feed_forward.activation)
    if block.feed_forward.gated:
        y, two = x.below + 2 * GAP, ((f"Gate, {act}", details["gate"]), ("Up projection", details["intermediate"]))
        gate = [Box(MIDDLE - 185 + i * 190, y, 180, TALL, *texts, "feed-forward") for i, texts in enumerate(two)]
        up = Box(MIDDLE - 185, gate[0].below + 2 * GAP, 370, 28, "×")
        _side_by_side(parts, x, gate, up)
    else:
        up = _under(parts, x, f"Up projection, {act}", details["intermediate"], "feed-forward")
    return _under(parts, up, "Down projection", details["output"], "feed-forward")


def _side_by_side(parts, above, boxes, below):
    parts += [*boxes, below]
    for box in boxes:
        middle = above.below + GAP
        parts.append(Line(((MIDDLE, above.below), (MIDDLE, middle), (box.centre, middle), (box.centre, box.y))))
        parts.append(Line(((box.centre, box.below), (box.centre, below.y))))


class _Layer(NamedTuple):
    """A sub-layer of a block for `run_block`."""

    name: str
    draw: Any

    def __call__(self, x):
        return self.draw(x)


def _draw_block(parts, ways, block, x, draw, detail, around):
    """Draw a block by running it: each layer draws itself below the box it reads, and returns its own box.

    Args:
        parts: the list that boxes and lines are appended to.
        ways: the list that residual connections are appended to.
        block: an `anatomy.Block`.
        x: the box above.
        draw: a function of the box above and a `Part`, which draws one of the two sub-layers.
        detail: a function from a `Part` to the detail text of its box.
        around: the x coordinates of the residual connections, and of the connection to a parallel convolution.

    Returns:
        The last box.
    """
    pre = block.order == "pre"

    def plus(pair, at, lines):
        box = Box(MIDDLE - 14, pair[1].below + GAP, 28, 28, "+")
        parts.extend([box, _down(pair[1], box)])
        lines.append(_around(pair[0], box, at))
        return box

    def half(name, at):
        own = {part.name: part for part in block_parts(block) if name in part.layer}
        norm, adapter = own.pop("Normalisation", None), own.pop("Adapter", None)
        (sub_layer,) = own.values()

        def normalise(x):
            if pre:
                return _under(parts, x, "Normalisation", detail(norm), "norm")
            box = _under(parts, x[1], "Add, then normalise", detail(norm), "norm")
            ways.append(_around(x[0], box, at))
            return box

        return Half(
            sub_layer=_Layer(name, lambda x: draw(x, sub_layer)),
            dropout=None,
            adapter=adapter and (lambda x: _under(parts, x, "Adapter", detail(adapter), "feed-forward")),
            adapter_add=lambda pair: plus(pair, MIDDLE + 172, parts),
            add=(lambda pair: plus(pair, at, ways)) if pre else tuple,
            norm=norm and normalise,
        )

    return _beside(
        parts, ways, block, x, detail, around[2], run_block(BlockLayers(tuple(map(half, HALVES, around)), block.order), x)
    )


def _beside(parts, ways, block, x, detail, at, last):
    """The convolution parallel to a block, drawn below it; its input runs on the right, the block's output on the left."""
    own = [part for part in block_parts(block) if CONVOLUTION in part.layer]
    if not own:
        return last
    convolution, norm = own
    read = Box(MIDDLE - 130, last.below + GAP, 260, TALL, "Convolution of the input", detail(convolution), "feed-forward")
    parts.append(read)
    box = _under(parts, read, "Add, then normalise", detail(norm), "norm")
    ways += [_around(x, read, at), _around(last, box, MIDDLE - 150)]
    return box


def _fullest(encoder):
    """The block with the most parts: in some families the first one has a norm less."""
    return max(encoder.blocks, key=lambda block: len(list(block_parts(block))))


def _around(x, box, at):
    """The connection from below a box to the side of another."""
    y, side = box.y + box.height / 2, box.x if at < MIDDLE else box.x + box.width
    return Line(((MIDDLE, x.below + GAP / 2), (at, x.below + GAP / 2), (at, y), (side, y)))


def _under(parts, above, title, detail, kind):
    box = Box(MIDDLE - 130, above.below + GAP, 260, TALL, title, detail, kind)
    parts += [box, _down(above, box)]
    return box


def _down(above, below):
    return Line(((below.centre, above.below), (below.centre, below.y)))


def _detail(step):
    return f"{step.formula} = {step.each:,}" if step.each else "no parameters"


def _name(activation):
    return activation if isinstance(activation, str) else getattr(activation, "__name__", "activation")
