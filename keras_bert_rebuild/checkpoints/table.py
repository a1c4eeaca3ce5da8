"""Name tables: our variable path, the foreign name and the layout of the array, written once for reading and writing.

A family is a dictionary from our module to its name in a foreign format; the `Naming` of the format makes the rows. For example,

    PYTORCH.rows({dense("Encoder-{block}-FeedForward/output"): "encoder.layer.{layer}.output.dense"})

returns the rows of a kernel, transposed, and of a bias.
"""

import math
import re
from collections import namedtuple
from dataclasses import dataclass, field, replace

import numpy as np

# Our variable path, the foreign name, the layout of the foreign array (`layout_of`), and the direction the row applies to: "both";
# "read" for an alias of an array that another row writes; or "optional", which is "both" for a variable that only some models of
# the family have. If an array holds several of our variables, each has a row with the same name, and `paths` lists all of them in
# the order in which they are concatenated on the last axis of our layout.
Row = namedtuple("Row", ["path", "name", "layout", "use", "paths"], defaults=["both", ()])


@dataclass(frozen=True)
class NameTable:
    """The names of one foreign format for one family.

    `Naming` makes the rows. In rows of a block, `{block}` counts from 1 in our paths and `{layer}` from 0 in foreign names;
    `{keras_layer}` counts from 4, after the layers of the embedding. In rows of heads, `{keras_layer}` is the number that follows
    the last block.
    """

    embeddings: tuple
    """Rows of the embedding."""

    block: tuple
    """Row templates of an encoder block."""

    heads: dict
    """Head, a name in `config.HEADS`, to its rows, including those shared with other heads."""

    prefix: str = ""
    """Prefix of all encoder names in a file that also has heads; a file of the bare encoder has no prefix."""

    ignored: tuple = ()
    """Regular expressions of names that are not weights: optimizer slots, buffers."""

    spellings: tuple = ()
    """Older spellings, as pairs of a regular expression and its replacement."""

    def rows(self, num_blocks, heads=None):
        """The rows of a model with this number of distinct blocks and these heads; None for all heads."""
        blocks = [_numbered(row, block=i + 1, layer=i, keras_layer=i + 4) for i in range(num_blocks) for row in self.block]
        of_heads = [row for head in (self.heads if heads is None else heads) for row in self._head_rows(head, num_blocks)]
        return list(dict.fromkeys([*self.embeddings, *blocks, *of_heads]))

    def heads_in(self, num_blocks, names):
        """The heads whose weights are all present, in table order."""
        return tuple(head for head in self.heads if not self.missing_of(head, num_blocks, names))

    def missing_of(self, head, num_blocks, names):
        """The names of the weights of a head that are not present, under their own name or under an alias."""
        rows = self._head_rows(head, num_blocks)
        present = {row.path for row in rows if row.name in names}
        return [row.name for row in rows if row.use == "both" and row.path not in present]

    def canonical(self, name, names):
        """A name in the table's spelling.

        Args:
            name: the name in a file.
            known: all names of the table.
        """
        for pattern, replacement in self.spellings:
            name = re.sub(pattern, replacement, name)
        return self.prefix + name if self.prefix + name in names else name

    def is_ignored(self, name):
        """Whether a name is not that of a weight."""
        return any(re.fullmatch(pattern, name) for pattern in self.ignored)

    def is_of_encoder(self, name):
        """Whether a name, known or not, belongs to the embedding or a block, so that skipping it would change every output."""
        patterns = {re.sub(r"\{\w+\}", r"\\d+", self._part(row.name)) for row in (*self.embeddings, *self.block)}
        return any(re.fullmatch(pattern, self._part(name)) for pattern in patterns)

    def _head_rows(self, head, num_blocks):
        return [_numbered(row, keras_layer=num_blocks + 4) for row in self.heads.get(head, ())]

    def _part(self, name):
        """The first component of a name, without the prefix."""
        return re.split(r"[./]", name.removeprefix(self.prefix))[0]


def _numbered(row, **numbers):
    path, name, *rest, paths = row
    return Row(path.format(**numbers), name.format(**numbers), *rest, tuple(path.format(**numbers) for path in paths))


# Do the shapes match (theirs, ours); theirs → ours; ours → theirs, None if it is never written.
Layout = namedtuple("Layout", ["fits", "to_ours", "to_theirs"])

LAYOUTS = {
    "same": Layout(
        fits=lambda theirs, ours: theirs == ours,
        to_ours=lambda array, shape: array,
        to_theirs=lambda array: array,
    ),
    "transposed": Layout(
        fits=lambda theirs, ours: theirs == ours[::-1],
        to_ours=lambda array, shape: array.T,
        to_theirs=lambda array: array.T,
    ),
    # Position tables may be shortened or extended when read: see `loaded_values.fit_positions`.
    "positions": Layout(
        fits=lambda theirs, ours: len(theirs) == 2 and theirs[1] == ours[1],
        to_ours=lambda array, shape: array,
        to_theirs=lambda array: array,
    ),
    # (hidden, heads, head width) and similar, for (hidden, hidden).
    "split": Layout(
        fits=lambda theirs, ours: math.prod(theirs) == math.prod(ours) and len(theirs) >= len(ours),
        to_ours=lambda array, shape: array.reshape(shape),
        to_theirs=None,
    ),
}


def layout_of(name):
    """The `Layout` of a row.

    Args:
        name: a key of `LAYOUTS`, or, for A heads, "heads:A" for `(..., A, head width)`, "heads_transposed:A" for the transpose of
            that, or "stacked:A" for "heads:A" of all layers in one array.
    """
    kind, _, heads = name.partition(":")
    return _head_layout(kind, int(heads)) if heads else LAYOUTS[kind]


def _head_layout(kind, heads):
    def split(array):
        return array.reshape(*array.shape[:-1], heads, -1)

    if kind == "heads_transposed":
        return Layout(
            fits=lambda theirs, ours: theirs == (ours[1], heads, ours[0] // heads),
            to_ours=lambda array, shape: array.reshape(shape[::-1]).T,
            to_theirs=lambda array: split(array.T),
        )
    if kind == "stacked":  # (layers, ..., heads, head width) for (..., layers · hidden)
        return Layout(
            fits=lambda theirs, ours: math.prod(theirs) == math.prod(ours) and len(theirs) == len(ours) + 2 and theirs[-2] == heads,
            to_ours=lambda array, shape: np.moveaxis(array, 0, -3).reshape(shape),
            to_theirs=None,
        )
    return Layout(
        fits=lambda theirs, ours: theirs == (*ours[:-1], heads, ours[-1] // heads),
        to_ours=lambda array, shape: array.reshape(shape),
        to_theirs=split,
    )


# The shape of a foreign array in our layout, and the slice of its last axis that holds a variable.
ArraySlice = namedtuple("ArraySlice", ["shape", "span"])


def slice_of(row, shapes):
    """Where a variable is in the foreign array of a row.

    Args:
        row: a `Row` of a name table.
        shapes: variable path to shape, for all paths of the array.
    """
    shape = tuple(shapes[row.path])
    if not row.paths:
        return ArraySlice(shape, None)
    widths = [shapes[path][-1] for path in row.paths]
    start = sum(widths[: row.paths.index(row.path)])
    return ArraySlice((*shape[:-1], sum(widths)), slice(start, start + shape[-1]))


@dataclass(frozen=True)
class Module:
    """One or several of our layers that have one name in the foreign format."""

    layers: tuple
    """Prefixes of the variable paths, with `{block}` for a layer of every block. Several layers are concatenated in this order, one
    array per kind of weight, on the last axis of our layout (the outputs)."""

    weights: tuple
    """Suffixes of the variable paths, such as "kernel"."""

    layout: str = ""
    """The layout of the arrays if it differs from the default of the format."""

    use: str = "both"
    """"read" for an alias of an array that another module writes; "optional" if only some models of the family have it."""


def dense(layer, bias=True):
    """A kernel, and a bias if `bias`."""
    return Module((layer,), ("kernel", "bias") if bias else ("kernel",))


def norm(layer, bias=True):
    """Gamma, and beta if `bias`."""
    return Module((layer,), ("gamma", "beta") if bias else ("gamma",))


def embedding(layer, layout=""):
    """An embedding table."""
    return Module((layer,), ("embeddings",), layout)


def fused(*modules):
    """Modules that the format stores in one array per kind of weight: queries, keys and values, or both halves of a gated layer.

    Args:
        *modules: in the order of their outputs; widths may differ.

    Raises:
        ValueError: they have different kinds of weights.
    """
    if len({(module.weights, module.layout, module.use) for module in modules}) != 1:
        raise ValueError(f"fused modules must have the same kinds of weights; got {', '.join(map(str, modules))}.")
    return replace(modules[0], layers=tuple(layer for module in modules for layer in module.layers))


def tied(module):
    """An alias of a module: not written; if a file has it, its values must be the same."""
    return replace(module, use="read")


def optional(module):
    """A module that a config may leave out; a head is recognised without it."""
    return replace(module, use="optional")


def under(prefix, names):
    """The names with a prefix."""
    return {module: prefix + name for module, name in names.items()}


@dataclass(frozen=True)
class Naming:
    """How a format names weights."""

    endings: dict
    """Our kind of weight, such as "kernel", to the suffix of its foreign name."""

    layouts: dict = field(default_factory=dict)
    """Our kind of weight to a key of `LAYOUTS`, for arrays whose layout differs from ours."""

    def rows(self, names):
        """The rows of a table.

        Args:
            names: dictionary from `Module` to its foreign name.
        """
        return tuple(
            Row(
                f"{layer}/{weight}",
                name + self.endings[weight],
                module.layout or self.layouts.get(weight, "same"),
                module.use,
                tuple(f"{other}/{weight}" for other in module.layers) if len(module.layers) > 1 else (),
            )
            for module, name in names.items()
            for weight in module.weights
            for layer in module.layers
        )

    def table(self, embeddings, block, heads, **rest):
        """The `NameTable` for the names of a family.

        Args:
            embeddings, block: dictionaries like that of `rows`.
            heads: dictionary from the name of a head to such a dictionary.
            **rest: other fields of `NameTable`.
        """
        return NameTable(self.rows(embeddings), self.rows(block), {head: self.rows(names) for head, names in heads.items()}, **rest)
