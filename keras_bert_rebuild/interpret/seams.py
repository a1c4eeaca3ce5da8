"""Rules to read and change values inside a live model. They leave no trace, and cost nothing when they are not used.

No weight, row of the graph or path changes. Functions compiled before are kept and used again afterwards; under rules, backends
compile separate ones (`models/running_step.py`).
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.interpret.sites import HEADS, OUTPUT, UNITS
from keras_bert_rebuild.layers import Add, FeedForward, LayerNormalization, MultiHeadSelfAttention, RMSNormalization, TokenEmbedding
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.find_encoder import find_encoder, models_in
from keras_bert_rebuild.models.running_step import follow_execution


class Pass:
    """The state of a forward pass; runs of a shared block differ only in their order."""

    run = -1
    """The index of the running block in execution order."""

    mask: Any = None
    """The mask of its attention: `(batch, length)`, bool or the numbers of sequences, or None."""

    entered: Any = None
    """Its input, `(batch, length, hidden)`."""


# A change at a place: a function of values `(batch, length, width)` and the pass that returns new values.
Change = Callable[[Any, Pass], Any]


def encoder_of(subject: Any) -> EncoderView:
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
def changed(subject: Any, encoder: EncoderView, changes: Mapping[tuple[str, int], Change]) -> Iterator[None]:
    """Change values inside a live model, for every use of it and of models that share its layers, in this thread.

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
        stack.enter_context(executing(*_rules(encoder, changes, here)))
        _follow(models)
        yield


def _follow(models):
    for model in models:
        follow_execution(model)


def _rules(encoder, changes, here):
    """The rules that make the changes: of each seam one, which finds its change by the layer."""
    numbers = {encoder.numbers[run] for _, run in changes}
    of_runs = {n: [run for run, number in enumerate(encoder.numbers) if number == n] for n in numbers}
    attentions, units, sums, ends = {}, {}, {}, {}
    for number in numbers:
        runs = of_runs[number]
        block = encoder.blocks[runs[0]]
        attention, feed_forward = block.halves[0], block.halves[1]
        attentions[id(attention.sub_layer)] = runs
        if any((UNITS, run) in changes for run in runs):
            units[id(feed_forward.sub_layer)] = _at(UNITS, changes, here)
        if any((OUTPUT, run) in changes for run in runs):
            sums[id(attention.add)] = None
            ends[id(block.last)] = _at(OUTPUT, changes, here)
    first, at_heads = encoder.layers["Embedding-Token"], _at(HEADS, changes, here)

    def look_up(plain, layer, *arguments):
        if layer is first:
            here.run = -1
        return plain(layer, *arguments)

    def attend(plain, layer, query, key, value, mask=None, training=None, *shared):
        heads = plain(layer, query, key, value, mask, training, *shared)
        if id(layer) not in attentions:
            return heads
        # A block with its own weights has one run; for a shared block it is the next run, or the first of a new pass.
        runs = attentions[id(layer)]
        here.run = next((run for run in runs if run > here.run), runs[0])
        here.mask = mask
        batch, length, count, width = ops.shape(heads)
        return ops.reshape(at_heads(ops.reshape(heads, (batch, length, count * width))), (batch, length, count, width))

    def inner(plain, layer, *arguments):
        outputs = plain(layer, *arguments)
        return units[id(layer)](outputs) if id(layer) in units else outputs

    def call(plain, layer, inputs, *arguments, **options):
        if id(layer) in sums:
            here.entered = inputs[0]  # the first half adds its result to the input of the block
        outputs = plain(layer, inputs, *arguments, **options)
        return ends[id(layer)](outputs) if id(layer) in ends else outputs

    ending = [(kind.call, call) for kind in (Add, LayerNormalization, RMSNormalization)] if ends else []
    return [(TokenEmbedding.look_up, look_up), (MultiHeadSelfAttention.attend, attend), (FeedForward.inner, inner), *ending]


def _at(kind, changes, here):
    def edit(values):
        change = changes.get((kind, here.run))
        return values if change is None else change(values, here)

    return edit
