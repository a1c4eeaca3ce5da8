"""The weights of a model under the names of other libraries, and which of their rows belong to which head."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Group
from rich.text import Text

from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.checkpoints.table import NameTable, layout_of, slice_of
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.accounting import check_steps
from keras_bert_rebuild.explain.record import Record, make_table
from keras_bert_rebuild.families import bert, table_of

FORMATS = ("huggingface", "google")

# Minimum width for both names side by side, not one below the other.
WIDE = 184


@dataclass(frozen=True)
class WeightName:
    """A weight under our name and theirs."""

    path: str
    """Our variable path."""

    shape: tuple
    """Our shape."""

    name: str
    """Their name."""

    their_shape: tuple
    """Their shape."""

    parameters: int
    """Number of parameters; 0 for an alias of a weight listed before."""

    head_axis: int | None
    """The axis of their array along which heads are concatenated; None if it is not split by heads."""

    num_heads: int
    """Number of heads of the layer, pruned ones included."""

    present: tuple[int, ...] = ()
    """Indices of the heads that are not pruned."""

    part: tuple[int, int, int] | None = None
    """If their array holds several of our weights: the axis, start and stop of this one; else None."""

    @property
    def heads(self) -> str:
        """Which part belongs to which head, in words; for a weight that is not split by heads, its part of a shared array, or "" if
        it has its own array."""
        if self.head_axis is None:
            return "" if self.part is None else f"{self._unit(self.part[0])} {self.part[1]}–{self.part[2] - 1}"
        spans = [(*self._span(head), head) for head in (self.present[0], self.present[-1])]
        first, last = (f"{start}–{stop - 1} head {head}" for start, stop, head in spans)
        return f"{self._unit(self.head_axis)} {first}" + (f", … {last}" if len(self.present) > 1 else "")

    def of_head(self, head: int) -> tuple[slice, ...]:
        """The part of their array that belongs to a head, a tuple of slices; all of it if it is not split by heads.

        Args:
            head: index of the head, from 0.

        Raises:
            ValueError: the head does not exist.
        """
        if not 0 <= head < self.num_heads:
            raise ValueError(f"head must be from 0 to {self.num_heads - 1}, as the layer has {self.num_heads}; got {head}.")
        if head not in self.present:
            raise ValueError(f"head must not be pruned; {head} of {self.path} was.")
        parts = [slice(None)] * len(self.their_shape)
        if self.part is not None:
            parts[self.part[0]] = slice(*self.part[1:])
        if self.head_axis is not None:
            parts[self.head_axis] = slice(*self._span(head))
        return tuple(parts)

    def _span(self, head):
        """Start and stop of a head on its axis."""
        start, stop = 0, self.their_shape[self.head_axis]
        if self.part is not None and self.part[0] == self.head_axis:
            start, stop = self.part[1:]
        width, index = (stop - start) // len(self.present), self.present.index(head)
        return start + index * width, start + (index + 1) * width

    def _unit(self, axis):
        return "entries" if len(self.their_shape) == 1 else ("rows", "columns")[axis]


def weight_names(config: BertConfig, heads: Sequence[str] = ("mlm", "nsp"), format: str = "huggingface") -> list[WeightName]:
    """Every weight with its name and shape in the files of other libraries.

    Args:
        config: a `BertConfig`.
        heads: names of heads. If empty, or only the pooler, names are those of the bare encoder (`BertModel`).
        format: "huggingface" or "google".

    Returns:
        A list of `WeightName` in the order of the model; aliases of a tied weight come last.

    Raises:
        ValueError: the format has no names for the family or a head.

    Example:

    >>> from keras_bert_rebuild import BertConfig
    >>> rows = weight_names(BertConfig(), heads=["pooler"])
    >>> len(rows), rows[5].name, rows[5].heads
    (199, 'encoder.layer.0.attention.self.query.weight', 'rows 0–63 head 0, … 704–767 head 11')
    """
    table = _table(config, format)
    check_steps(config, heads)
    weights = weights_of(config.encoder(), heads)
    # The pooler is already among the rows of a head that uses it.
    rows = table.rows(config.num_distinct_blocks, [head for head in heads if head in table.heads])
    prefix = table.prefix if format == "huggingface" and not set(heads) - {"pooler"} else ""
    named = [row for row in rows if row.path in weights]
    missing = sorted(set(weights) - {row.path for row in named})
    if missing:
        raise ValueError(
            f"{format} must have names for every weight of {config.family}; it has none for {', '.join(missing[:5])}"
            f"{', ...' if len(missing) > 5 else ''}."
        )
    order = {path: i for i, path in enumerate(weights)}
    shapes = {path: shape for path, (_, shape) in weights.items()}
    pruned, before = dict(config.pruned_heads), range(config.num_attention_heads)
    of_block = {f"Encoder-{block + 1}": tuple(head for head in before if head not in heads) for block, heads in pruned.items()}
    return [
        _weight_name(
            row,
            weights,
            shapes,
            row.name.removeprefix(prefix),
            len(before),
            of_block.get("-".join(row.path.split("-")[:2]), tuple(before)),
        )
        for row in sorted(named, key=lambda row: (row.use == "read", order[row.path]))
    ]


def _table(config: BertConfig, format: str) -> NameTable:
    if format not in FORMATS:
        raise ValueError(f"names must be those of {' or '.join(FORMATS)}; got {format!r}.")
    if format == "huggingface":
        return table_of(config)
    if config.family != "bert":
        raise ValueError(f"Google's names are those of BERT; the family is {config.family}.")
    return bert.GOOGLE


def _weight_name(row, weights, shapes, name, num_heads, present):
    weight, shape = weights[row.path]
    joined, span = slice_of(row, shapes)
    axis, transposed = weight.head_axis, "transposed" in row.layout
    if axis is not None and transposed:
        axis = len(shape) - 1 - axis
    part = (0 if transposed else len(shape) - 1, span.start, span.stop) if row.paths else None
    parameters = 0 if row.use == "read" else math.prod(shape)
    to_theirs = layout_of(row.layout).to_theirs
    theirs = joined if to_theirs is None else to_theirs(np.broadcast_to(np.float32(0), joined)).shape  # takes no memory
    return WeightName(row.path, shape, name, theirs, parameters, axis, num_heads, present, part)


@dataclass(frozen=True)
class WeightNames(Record):
    """The weights of a model under both names, as a table."""

    rows: Sequence[WeightName]
    """See `weight_names`."""

    def to_tables(self, width: int = 100) -> Any:
        """The table for `rich`, with both names below each other in a narrow terminal."""
        if width >= WIDE:
            table = make_table(*((name, {"overflow": "fold"}) for name in ("ours", "shape", "theirs", "shape", "heads")))
            for row in self.rows:
                theirs = Text(row.name, style="cyan"), _shape(row.their_shape), Text(row.heads, style="dim")
                table.add_row(row.path, _shape(row.shape), *theirs)
        else:
            table = make_table(("ours, and below it theirs", {"overflow": "fold"}), ("shape", {"no_wrap": True}))
            for row in self.rows:
                text = Text.assemble(row.path, "\n", (row.name, "cyan"))
                if row.heads:
                    text.append(f"\n{row.heads}", style="dim")
                table.add_row(text, f"{_shape(row.shape)}\n{_shape(row.their_shape)}")
                table.add_section()
        return Group(Text(self.summary(), style="bold"), Text(), table)

    def to_markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.summary(), "", "| ours | shape | theirs | shape | heads |", "|:--|:--|:--|:--|:--|"]
        for row in self.rows:
            lines.append(f"| {row.path} | {_shape(row.shape)} | {row.name} | {_shape(row.their_shape)} | {row.heads} |")
        return "\n".join(lines) + "\n"

    def to_json(self) -> list[dict[str, Any]]:
        """The rows as dictionaries; `part` is left out where it is None, always in formats without fused weights."""
        values = [{**asdict(row), "heads": row.heads} for row in self.rows]
        return [{name: value for name, value in row.items() if name != "part" or value is not None} for row in values]

    def summary(self) -> str:
        """The number of weights, and a note that one kernel holds all heads."""
        count = sum(row.parameters > 0 for row in self.rows)
        text = f"{count:,} weights, {sum(row.parameters for row in self.rows):,} parameters."
        split = [row for row in self.rows if row.head_axis is not None and row.path.endswith("query/kernel")]
        if split:
            heads = f"all {split[0].num_heads} heads" if split[0].num_heads > 1 else "the one head"
            text += f" A layer has one query, one key and one value kernel for {heads}: {split[0].heads}."
        seconds = len(self.rows) - count
        return text + (f" {seconds} more names, at the end, are aliases of tied weights." if seconds else "")


def _shape(shape):
    return "(" + ", ".join(f"{size:,}" for size in shape) + ("," if len(shape) == 1 else "") + ")"
