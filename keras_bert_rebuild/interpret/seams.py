"""Hooks to read and change values inside a live model. They leave no trace, and cost nothing when they are not used.

The layers of an encoder have one attribute for them, `edit`. No weight, row of the graph or path changes. Functions compiled before
are kept and used again afterwards; under changes, backends compile separate ones (`models/compiled_functions.py`).
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from keras_bert_rebuild.explain.encoder_walk import Encoder, find_encoder, models_in
from keras_bert_rebuild.interpret.sites import HEADS, OUTPUT, UNITS
from keras_bert_rebuild.kernels.interventions import intervening
from keras_bert_rebuild.models.compiled_functions import follow_interventions
from keras_bert_rebuild.models.encoder_blocks import block_of


class Pass(threading.local):
    """The state of a forward pass of this thread; runs of a shared block differ only in their order."""

    run = -1
    """The index of the running block in execution order."""

    mask: Any = None
    """The mask of its attention: `(batch, length)`, bool or the numbers of sequences, or None."""

    entered: Any = None
    """Its input, `(batch, length, hidden)`."""


# A change at a place: a function of values `(batch, length, width)` and the pass that returns new values.
Change = Callable[[Any, Pass], Any]


def encoder_of(subject: Any) -> Encoder:
    """The encoder of a model, or of the model of a task.

    Args:
        subject: a model with an encoder of this library in it, or a task.

    Raises:
        ValueError: it has no encoder, or several.
    """
    model = subject if isinstance(subject, keras.Model) else getattr(subject, "encoder", getattr(subject, "model", None))
    if not isinstance(model, keras.Model):
        raise ValueError(f"expected a model or a task, which has one; got {type(subject).__name__}.")
    return find_encoder(model)


@contextlib.contextmanager
def changed(subject: Any, encoder: Encoder, changes: Mapping[tuple[str, int], Change]) -> Iterator[None]:
    """Change values inside a live model, for every use of it and of models that share its layers, in every thread.

    Args:
        subject: the model or task.
        encoder: its encoder, from `encoder_of`.
        changes: changes by kind of place, `HEADS`, `UNITS` or `OUTPUT`, and index of a block in execution order. Nested contexts
            are applied from the outermost to the innermost.
    """
    known, here = [subject, *(getattr(subject, name, None) for name in ("model", "encoder"))], Pass()
    models = [part for model in known if isinstance(model, keras.Model) for part in models_in(model)]
    with contextlib.ExitStack() as stack:
        stack.callback(_follow, models)
        stack.enter_context(intervening())
        _follow(models)
        _install(stack, encoder, changes, here)
        yield


def _follow(models):
    for model in models:
        follow_interventions(model)


def _install(stack, encoder, changes, here):
    """Install the changes in the layers of the changed blocks, and push functions that undo them on the stack."""
    numbers = {encoder.blocks[run] for _, run in changes}
    of_runs = {n: [run for run, number in enumerate(encoder.blocks) if number == n] for n in numbers}

    def begin(values, _):
        here.run = -1
        return values

    stack.enter_context(_edited(encoder.layers["Embedding-Token"], begin))
    for number in numbers:
        block, runs = block_of(encoder.layers, number, encoder.order), of_runs[number]
        attention, feed_forward = block.halves[0], block.halves[1]
        stack.enter_context(_edited(attention.sub_layer, _at_heads(changes, here, runs)))
        if any((UNITS, run) in changes for run in runs):
            stack.enter_context(_edited(feed_forward.sub_layer, _at(UNITS, changes, here)))
        if any((OUTPUT, run) in changes for run in runs):
            stack.enter_context(_edited(attention.add, _noting_input(here)))
            stack.enter_context(_edited(_last_layer(block), _at(OUTPUT, changes, here)))


def _last_layer(block):
    """The last layer of a block."""
    if block.convolution is not None:
        return block.convolution.norm
    return block.halves[-1].add if block.order == "pre" else block.halves[-1].norm


def _at(kind, changes, here):
    def edit(values, _):
        change = changes.get((kind, here.run))
        return values if change is None else change(values, here)

    return edit


def _at_heads(changes, here, runs):
    at_heads = _at(HEADS, changes, here)

    def edit(values, mask):
        # A block with its own weights has one run; for a shared block it is the next run, or the first of a new pass.
        here.run = next((run for run in runs if run > here.run), runs[0])
        here.mask = mask
        return at_heads(values, mask)

    return edit


def _noting_input(here):
    def edit(values, summands):
        here.entered = summands[0]  # the first half adds its result to the input of the block
        return values

    return edit


@contextlib.contextmanager
def _edited(layer, edit):
    """Let a layer change its values, after any changes that it makes already."""
    before = layer.edit
    layer.edit = edit if before is None else lambda values, beside: edit(before(values, beside), beside)
    try:
        yield
    finally:
        if before is None:
            del layer.edit
        else:
            layer.edit = before
