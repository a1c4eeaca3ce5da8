"""The parts of a block that can be switched off or replaced: heads, units of the feed-forward half, the block, positions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from keras_bert_rebuild.explain.encoder_walk import ATTENTION, Encoder, heads_present

# Where the values of a site are: what attention reads at its output projection, what the feed-forward half reads there, and what a
# block hands on.
HEADS, UNITS, OUTPUT = "heads", "units", "output"


def numbers_of(values: Any) -> tuple[int, ...]:
    """One number or several as a tuple."""
    return tuple(int(value) for value in (values if isinstance(values, Iterable) else [values]))


@dataclass(frozen=True)
class Head:
    """What an attention head of a block gives to the output projection, `(batch, length, width of a head)`.

    Blocks and heads are counted from 0, as in `attention_maps`; a pruned model counts the heads that it had before.
    """

    block: int
    head: int
    positions: tuple[int, ...] | None = None
    """The tokens of a row, from 0; None for all."""

    def __post_init__(self) -> None:
        _settle_positions(self)


@dataclass(frozen=True)
class Neuron:
    """Units of the feed-forward half of a block after activation, and gate if there is one, `(batch, length, units)`."""

    block: int
    units: int | tuple[int, ...]
    """One number, or several, from 0."""

    positions: tuple[int, ...] | None = None
    """See `Head`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", numbers_of(self.units))
        _settle_positions(self)


@dataclass(frozen=True)
class Block:
    """What a block hands on, `(batch, length, hidden)`. Switched off, it hands on what it reads: it is skipped."""

    block: int


@dataclass(frozen=True)
class Position:
    """What a block hands on at some tokens of a row, `(batch, length, hidden)`. Switched off, these vectors are 0."""

    block: int
    positions: int | tuple[int, ...]
    """One number, or several, from 0. In windows of a long text and in packed rows they count within every window and text."""

    def __post_init__(self) -> None:
        _settle_positions(self)


Site: TypeAlias = Head | Neuron | Block | Position


def _settle_positions(site: Any) -> None:
    """Make a tuple of the positions of a site, and refuse negative ones: what is last differs between the rows of a batch."""
    if site.positions is None:
        return
    positions = numbers_of(site.positions)
    if not positions or min(positions) < 0:
        raise ValueError(f"positions must be numbers from 0, at least one; got {site.positions!r:.80}.")
    object.__setattr__(site, "positions", positions)


class Found(NamedTuple):
    """A site in a model."""

    kind: str
    """`HEADS`, `UNITS` or `OUTPUT`."""

    run: int
    """The number of the block in the order in which blocks run, from 0; a shared one has several."""

    columns: np.ndarray
    """Where the values of the site are among all that are there."""

    width: int
    """How many those are."""

    positions: tuple[int, ...] | None
    """See `Head`."""


def found_in(encoder: Encoder, site: Site) -> Found:
    """Where a site is in a model.

    Args:
        encoder: as from `find_encoder`.
        site: a `Head`, `Neuron`, `Block` or `Position`.

    Raises:
        ValueError: it is none of these, or the model does not have it.
    """
    if not isinstance(site, (Head, Neuron, Block, Position)):
        raise ValueError(f"a site must be a Head, Neuron, Block or Position; got {site!r:.80}.")
    runs = len(encoder.blocks)
    if not -runs <= site.block < runs:
        raise ValueError(f"block must be a number from 0 to {runs - 1}, as the model has {runs}; got {site.block} in {site}.")
    run = site.block % runs
    positions = getattr(site, "positions", None)
    if isinstance(site, Head):
        layer, heads = encoder.layers[ATTENTION.format(encoder.blocks[run])], list(heads_present(encoder)[run])
        if site.head not in heads:
            raise ValueError(f"head must be one of {_listed(heads)}, the heads of block {run}; got {site.head}.")
        width = layer.head_size
        first = heads.index(site.head) * width
        return Found(HEADS, run, np.arange(first, first + width), layer.head_num * width, positions)
    if isinstance(site, Neuron):
        units = encoder.layers[f"Encoder-{encoder.blocks[run]}-FeedForward"].units
        chosen = numbers_of(site.units)
        wrong = [unit for unit in chosen if not 0 <= unit < units]
        if wrong or not chosen:
            raise ValueError(f"units must be numbers from 0 to {units - 1}, those of block {run}; got {wrong or 'none'}.")
        return Found(UNITS, run, np.array(chosen), units, positions)
    width = encoder.embedding.outputs[0].shape[-1]
    return Found(OUTPUT, run, np.arange(width), width, positions)


def _listed(numbers: list[int]) -> str:
    whole = numbers == list(range(len(numbers)))
    return f"0 to {len(numbers) - 1}" if whole else ", ".join(map(str, numbers))
