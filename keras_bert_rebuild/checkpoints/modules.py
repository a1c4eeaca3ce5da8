"""The parts of name tables: modules of ours with their names in a format.

A family is a dictionary from module to name, and the `Naming` of its format does the rest:

    PYTORCH.rows({dense("Encoder-{block}-FeedForward/output"): "encoder.layer.{layer}.output.dense"})

are the rows of a kernel, transposed, and of a bias.
"""

from dataclasses import dataclass, field, replace

from keras_bert_rebuild.checkpoints.table import NameTable, Row


@dataclass(frozen=True)
class Module:
    """One or several layers of ours that have one name in a format."""

    layers: tuple
    """How the variable paths begin, with `{block}` for a layer of every block. Several layers are concatenated into one array for
    each weight, in this order, on the last axis of ours, that of the outputs."""

    weights: tuple
    """How the variable paths end, such as "kernel"."""

    layout: str = ""
    """The layout of the arrays, if it is not that of the format."""

    use: str = "both"
    """"read" for a second name of an array that another module writes; "optional" if only some models of the family have it."""


def dense(layer, bias=True):
    """A kernel, and a bias if there is one."""
    return Module((layer,), ("kernel", "bias") if bias else ("kernel",))


def norm(layer, bias=True):
    """Gamma, and beta if there is one."""
    return Module((layer,), ("gamma", "beta") if bias else ("gamma",))


def embedding(layer, layout=""):
    """A table of vectors."""
    return Module((layer,), ("embeddings",), layout)


def fused(*modules):
    """Modules that a format stores in one array for each kind of weight: queries, keys and values, or the halves of a gate.

    Args:
        *modules: in the order of their outputs. Their widths may differ.

    Raises:
        ValueError: their weights differ.
    """
    if len({(module.weights, module.layout, module.use) for module in modules}) != 1:
        raise ValueError(f"fused modules must have the same weights; got {', '.join(map(str, modules))}.")
    return replace(modules[0], layers=tuple(layer for module in modules for layer in module.layers))


def tied(module):
    """The same module under a second name: read if a file has it, it must then hold the same values, and is not written."""
    return replace(module, use="read")


def optional(module):
    """The same module, which a config may leave out: a head is recognised without it."""
    return replace(module, use="optional")


def under(prefix, names):
    """Names with a prefix."""
    return {module: prefix + name for module, name in names.items()}


@dataclass(frozen=True)
class Naming:
    """The naming of a format."""

    endings: dict
    """Weight of ours, such as "kernel", to what follows the name of its module."""

    layouts: dict = field(default_factory=dict)
    """Weight of ours to a key of `layouts.LAYOUTS`, if the layout of an array differs from ours."""

    def rows(self, names):
        """The rows of a table.

        Args:
            names: dictionary from `Module` to its name in the format.
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
        """A `NameTable` of names.

        Args:
            embeddings, block: dictionaries as for `rows`.
            heads: name of a head to such a dictionary.
            **rest: further fields of `NameTable`.
        """
        return NameTable(self.rows(embeddings), self.rows(block), {head: self.rows(names) for head, names in heads.items()}, **rest)
