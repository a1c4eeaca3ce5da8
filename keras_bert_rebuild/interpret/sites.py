"""The parts of a live model that can be read, switched off or replaced, and the rules that do so.

Rules leave no trace, and cost nothing when they are not used. No weight, row of the graph or path changes. Functions compiled
before are kept and used again afterwards; under rules, backends compile separate ones (`models/running_step.py`).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.layers import Add, FeedForward, LayerNormalization, MultiHeadSelfAttention, RMSNormalization, TokenEmbedding
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.find_encoder import find_encoder, models_in
from keras_bert_rebuild.models.running_step import follow_execution

# The values that a site is a part of: the inputs of the output projections of attention and of the feed-forward network, and the
# output of a block.
HEADS, UNITS, OUTPUT = "heads", "units", "output"


def numbers_of(values: Any) -> tuple[int, ...]:
    """A number or several numbers as a tuple."""
    return tuple(int(value) for value in (values if isinstance(values, Iterable) else [values]))


@dataclass(frozen=True)
class Head:
    """The output of an attention head before the output projection, `(batch, length, width of a head)`.

    Blocks and heads are counted from 0, as in `attention_maps`; a pruned model keeps the numbers of the unpruned one.
    """

    block: int
    head: int
    positions: tuple[int, ...] | None = None
    """The tokens of a row, from 0; None for all."""

    def __post_init__(self) -> None:
        _settle_positions(self)


@dataclass(frozen=True)
class Neuron:
    """Units of the feed-forward network of a block, after activation and gate (if any), `(batch, length, units)`."""

    block: int
    units: int | tuple[int, ...]
    """One index or several, from 0."""

    positions: tuple[int, ...] | None = None
    """See `Head`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", numbers_of(self.units))
        _settle_positions(self)


@dataclass(frozen=True)
class Block:
    """The output of a block, `(batch, length, hidden)`. If switched off, the block is skipped and returns its input."""

    block: int


@dataclass(frozen=True)
class Position:
    """The output of a block at some tokens of a row, `(batch, length, hidden)`. If switched off, these vectors are 0."""

    block: int
    positions: int | tuple[int, ...]
    """One position or several, from 0, counted within every window of a long text and every text of a packed row."""

    def __post_init__(self) -> None:
        _settle_positions(self)


Site: TypeAlias = Head | Neuron | Block | Position


def _settle_positions(site: Any) -> None:
    """Convert the positions of a site to a tuple, and refuse negative ones, since the rows of a batch have different lengths."""
    if site.positions is None:
        return
    positions = numbers_of(site.positions)
    if not positions or min(positions) < 0:
        raise ValueError(f"positions must be one or more numbers of at least 0; got {site.positions!r:.80}.")
    object.__setattr__(site, "positions", positions)


class LocatedSite(NamedTuple):
    """The location of a site in a model."""

    kind: str
    """`HEADS`, `UNITS` or `OUTPUT`."""

    run: int
    """The index of the block in execution order, from 0; a shared block has several."""

    columns: np.ndarray
    """The columns of the site among all values at its place."""

    width: int
    """The number of values at its place."""

    positions: tuple[int, ...] | None
    """See `Head`."""


def located_site(encoder: EncoderView, site: Site) -> LocatedSite:
    """The location of a site in a model.

    Args:
        encoder: the result of `find_encoder`.
        site: a `Head`, `Neuron`, `Block` or `Position`.

    Raises:
        ValueError: the site is none of these, or does not exist in the model.
    """
    if not isinstance(site, (Head, Neuron, Block, Position)):
        raise ValueError(f"a site must be a Head, Neuron, Block or Position; got {site!r:.80}.")
    runs = len(encoder.blocks)
    if not -runs <= site.block < runs:
        raise ValueError(f"block must be a number from 0 to {runs - 1}, as the model has {runs}; got {site.block} in {site}.")
    run = site.block % runs
    positions = getattr(site, "positions", None)
    if isinstance(site, Head):
        layer, heads = encoder.blocks[run].attention, list(encoder.heads[run])
        if site.head not in heads:
            raise ValueError(f"head must be one of {_listed(heads)}, the heads of block {run}; got {site.head}.")
        width = layer.head_size
        first = heads.index(site.head) * width
        return LocatedSite(HEADS, run, np.arange(first, first + width), layer.head_num * width, positions)
    if isinstance(site, Neuron):
        units = encoder.blocks[run].halves[1].sub_layer.units
        numbers = numbers_of(site.units)
        wrong = [unit for unit in numbers if not 0 <= unit < units]
        if wrong or not numbers:
            raise ValueError(f"units must be numbers from 0 to {units - 1}, those of block {run}; got {wrong or 'none'}.")
        return LocatedSite(UNITS, run, np.array(numbers), units, positions)
    return LocatedSite(OUTPUT, run, np.arange(encoder.width), encoder.width, positions)


def _listed(numbers: list[int]) -> str:
    whole = numbers == list(range(len(numbers)))
    return f"0 to {len(numbers) - 1}" if whole else ", ".join(map(str, numbers))


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
    candidates, here = [subject, *(getattr(subject, name, None) for name in ("model", "encoder"))], Pass()
    models = [part for model in candidates if isinstance(model, keras.Model) for part in models_in(model)]
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
