"""The parts of a block that can be switched off or replaced: heads, units of the feed-forward network, the block, positions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_bert_rebuild.models.encoder_view import EncoderView

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


class Found(NamedTuple):
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


def found_in(encoder: EncoderView, site: Site) -> Found:
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
        return Found(HEADS, run, np.arange(first, first + width), layer.head_num * width, positions)
    if isinstance(site, Neuron):
        units = encoder.blocks[run].halves[1].sub_layer.units
        chosen = numbers_of(site.units)
        wrong = [unit for unit in chosen if not 0 <= unit < units]
        if wrong or not chosen:
            raise ValueError(f"units must be numbers from 0 to {units - 1}, those of block {run}; got {wrong or 'none'}.")
        return Found(UNITS, run, np.array(chosen), units, positions)
    return Found(OUTPUT, run, np.arange(encoder.width), encoder.width, positions)


def _listed(numbers: list[int]) -> str:
    whole = numbers == list(range(len(numbers)))
    return f"0 to {len(numbers) - 1}" if whole else ", ".join(map(str, numbers))
