"""What name tables are made of: modules of ours, filled with the names of a format.

A family is a dictionary from module to name, and the words of its format do the rest:

    PYTORCH.rows({dense("Encoder-{block}-FeedForward/output"): "encoder.layer.{layer}.output.dense"})

are the rows of a kernel, transposed, and of a bias.
"""

from dataclasses import dataclass, field, replace

from keras_bert_rebuild.checkpoints.table import NameTable, Row


@dataclass(frozen=True)
class Module:
    """One or several layers of ours that a format keeps under one name."""

    layers: tuple
    """What the variable paths begin with, with `{block}` where there is one in every block. Several layers are joined in one array
    for each weight, in this order, on the last axis of ours: that of the outputs."""

    weights: tuple
    """What the variable paths end with, such as "kernel"."""

    layout: str = ""
    """How the arrays lie, where that is not for the format to say."""

    use: str = "both"
    """"read" for a second name of what another module writes."""


def dense(layer, bias=True):
    """A kernel, and a bias unless there is none."""
    return Module((layer,), ("kernel", "bias") if bias else ("kernel",))


def norm(layer, bias=True):
    """Gamma, and beta unless there is none."""
    return Module((layer,), ("gamma", "beta") if bias else ("gamma",))


def embedding(layer, layout=""):
    """A table of vectors."""
    return Module((layer,), ("embeddings",), layout)


def fused(*modules):
    """Modules that a format keeps in one array for each kind of weight: queries, keys and values, or the halves of a gate.

    Args:
        *modules: in the order in which their outputs lie. Their widths may differ.

    Raises:
        ValueError: they have other weights than one another.
    """
    if len({(module.weights, module.layout, module.use) for module in modules}) != 1:
        raise ValueError(f"fused modules must have the same weights; got {', '.join(map(str, modules))}.")
    return replace(modules[0], layers=tuple(layer for module in modules for layer in module.layers))


def tied(module):
    """The same module as a second name: it is read where a file has it, must then hold the same, and is not written."""
    return replace(module, use="read")


def under(prefix, names):
    """Names behind a prefix."""
    return {module: prefix + name for module, name in names.items()}


@dataclass(frozen=True)
class Naming:
    """The words of a format."""

    endings: dict
    """Weight of ours, such as "kernel", to what stands behind the name of its module."""

    layouts: dict = field(default_factory=dict)
    """Weight of ours to a key of `layouts.LAYOUTS`, where an array does not lie as ours does."""

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
