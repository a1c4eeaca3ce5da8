"""The places of a live model where values are read and changed. Nothing of it is left behind, and nothing is paid elsewhere.

The layers of an encoder have one attribute for it, `edit`. No weight, no row of the graph and no path changes. What backends
compiled before stays, and is used again afterwards; in between they compile what they need under the changes
(`models/compiled_functions.py`).
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
    """Where a forward pass of this thread is: of a shared block only the order says which one it is."""

    run = -1
    """The number of the running block in the order in which blocks run."""

    mask: Any = None
    """The mask of its attention: `(batch, length)`, bool or the numbers of sequences, or None."""

    entered: Any = None
    """What it read, `(batch, length, hidden)`."""


# What is done at a place: a function of values `(batch, length, width)` and of the pass to new values.
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
    """Change values inside a live model, for every way of calling it and any model that shares its layers, in every thread.

    Args:
        subject: the model or task.
        encoder: its encoder, as from `encoder_of`.
        changes: from a kind of place, `HEADS`, `UNITS` or `OUTPUT`, and the number of a block in the order in which they run, to
            what is done there. Contexts within each other are applied from the outer to the inner one.
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
    """Replace what the layers of the changed blocks do, and register on the stack how it was."""
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
    """The layer of a block whose output is that of the block."""
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
        # Of a block with weights of its own there is one; of a shared one it is the next, or the first of a new pass.
        here.run = next((run for run in runs if run > here.run), runs[0])
        here.mask = mask
        return at_heads(values, mask)

    return edit


def _noting_input(here):
    def edit(values, summands):
        here.entered = summands[0]  # the first half adds what it computes to what the block reads
        return values

    return edit


@contextlib.contextmanager
def _edited(layer, edit):
    """Let a layer change its values, after what it already changes."""
    before = layer.edit
    layer.edit = edit if before is None else lambda values, beside: edit(before(values, beside), beside)
    try:
        yield
    finally:
        if before is None:
            del layer.edit
        else:
            layer.edit = before
