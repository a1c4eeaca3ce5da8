"""The weights of a model under the names of others, and which of their rows belong to which head."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.checkpoints.table import NameTable
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.steps import check_steps
from keras_bert_rebuild.families import FAMILIES, bert

FORMATS = ("huggingface", "google")


@dataclass(frozen=True)
class WeightName:
    """A weight, ours and theirs."""

    path: str
    """Our variable path."""

    shape: tuple
    """Our shape."""

    name: str
    """Their name."""

    their_shape: tuple
    """Their shape."""

    parameters: int
    """How many numbers it holds; 0 for a second name of a weight that stands above."""

    head_axis: int | None
    """The axis of their shape along which the heads lie one behind the other; None where no head has a part of its own."""

    num_heads: int
    """Heads of the layer."""

    @property
    def heads(self) -> str:
        """Which part belongs to which head, in words, counted as theirs; "" where none does."""
        if self.head_axis is None:
            return ""
        width = self.their_shape[self.head_axis] // self.num_heads
        part = "entries" if len(self.their_shape) == 1 else ("rows", "columns")[self.head_axis]
        last = self.num_heads - 1
        return f"{part} 0–{width - 1} head 0" + (f", … {width * last}–{width * last + width - 1} head {last}" if last else "")

    def of_head(self, head: int) -> tuple[slice, ...]:
        """The part of their array that belongs to a head, as a tuple of slices; everything where no part does.

        Args:
            head: its number, from 0.

        Raises:
            ValueError: there is no such head.
        """
        if not 0 <= head < self.num_heads:
            raise ValueError(f"head must be from 0 to {self.num_heads - 1}, as the layer has {self.num_heads}; got {head}.")
        parts = [slice(None)] * len(self.their_shape)
        if self.head_axis is not None:
            width = self.their_shape[self.head_axis] // self.num_heads
            parts[self.head_axis] = slice(head * width, (head + 1) * width)
        return tuple(parts)


def weight_names(config: BertConfig, heads: Sequence[str] = ("mlm", "nsp"), format: str = "huggingface") -> list[WeightName]:
    """Every weight with its name and shape in the files of others.

    Args:
        config: a `BertConfig`.
        heads: names of heads. Without any, or with the pooler alone, names are those of the bare encoder (`BertModel`).
        format: "huggingface" or "google".

    Returns:
        A list of `WeightName`, in the order of the model; second names of a tied weight come last.

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
    # A pooler that another head stands on is in that head's rows already.
    rows = table.rows(config.num_distinct_blocks, [head for head in heads if head in table.heads])
    prefix = table.prefix if format == "huggingface" and not set(heads) - {"pooler"} else ""
    named = [row for row in rows if row.path in weights]
    missing = sorted(set(weights) - {row.path for row in named})
    if missing:
        raise ValueError(
            f"the names of {format} for {config.family} must include every weight; there are none for {', '.join(missing[:5])}"
            f"{', ...' if len(missing) > 5 else ''}."
        )
    order = {path: i for i, path in enumerate(weights)}
    return [
        _weight_name(row, *weights[row.path], row.name.removeprefix(prefix), config.num_attention_heads)
        for row in sorted(named, key=lambda row: (row.use == "read", order[row.path]))
    ]


def _table(config: BertConfig, format: str) -> NameTable:
    if format not in FORMATS:
        raise ValueError(f"names must be those of {' or '.join(FORMATS)}; got {format!r}.")
    if format == "huggingface":
        if config.family not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}; got {config.family!r}.")
        return FAMILIES[config.family].HUGGINGFACE
    if config.family != "bert":
        raise ValueError(f"Google's names are those of BERT; the family is {config.family}.")
    return bert.GOOGLE


def _weight_name(row, weight, shape, name, num_heads):
    axis = weight.head_axis
    transposed = row.layout == "transposed"
    if axis is not None and transposed:
        axis = len(shape) - 1 - axis
    their_shape = shape[::-1] if transposed else shape
    return WeightName(row.path, shape, name, their_shape, 0 if row.use == "read" else math.prod(shape), axis, num_heads)
