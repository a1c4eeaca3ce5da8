"""Building blocks of name tables: our modules and their names in a foreign format.

A family is a dictionary from module to name; the `Naming` of the format derives the rows. For example,

    PYTORCH.rows({dense("Encoder-{block}-FeedForward/output"): "encoder.layer.{layer}.output.dense"})

returns the rows of a kernel, transposed, and of a bias.
"""

from dataclasses import dataclass, field, replace

from keras_bert_rebuild.checkpoints.table import NameTable, Row


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
    """The same module, which a config may leave out; a head is recognised without it."""
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
    """Our kind of weight to a key of `layouts.LAYOUTS`, for arrays whose layout differs from ours."""

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
