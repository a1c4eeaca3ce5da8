"""A part of an encoder: a layer with weights, its operations, what a training step retains of it, and how it is sharded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from keras_bert_rebuild.anatomy.formulas import value

# The sections of an encoder, as in the explanation.
EMBEDDING, BLOCK, HEAD = "Embedding", "Encoder block", "Heads"

# Axis of a device mesh along which weights are sharded.
MODEL = "model"

# Dtypes of numbers that are retained: that of the dtype policy, that of the operands of products, and float32 under every policy.
# A TPU rounds the operands of products to bfloat16, also under float32, and its compiler retains them in it.
COMPUTE, PRODUCT, FLOAT32 = "compute", "product", "float32"


@dataclass(frozen=True)
class Weight:
    """A weight of a part. Its shape is in the letters of `formulas.LETTERS`, or in numbers."""

    role: str
    """Its path in its layer, such as "query/kernel"; with the layer's name before it, the path of the variable."""

    shape: tuple
    """Letters or numbers, such as `("H", "FFD")`."""

    cut: tuple = ()
    """Ways to shard it over devices, each an axis or None for every dimension: the first that divides evenly is used."""

    head_axis: int | None = None
    """The axis along which attention heads are concatenated; None if heads have no parts of their own."""

    adapter: bool = False
    """Whether it gets a low-rank adapter by default."""


@dataclass(frozen=True)
class Held:
    """Numbers of one example that a compiled training step retains for its backward pass."""

    what: str
    """What they are."""

    shape: tuple
    """The shape of one array in letters; a TPU pads the last two axes to tiles."""

    dtype: str = COMPUTE
    """Their dtype: `COMPUTE`, `PRODUCT` or `FLOAT32`."""

    times: str = "1"
    """How many such arrays, in letters."""

    scores: bool = False
    """Whether they exist only if attention scores are stored, not recomputed by a fused kernel."""


@dataclass(frozen=True)
class Part:
    """A step of the article, or one that only other encoders have. Formulas are those of `formulas.py`."""

    article: int | None
    """Its number in the article; None if the article's model does not have it."""

    section: str
    """Embedding, encoder block or heads."""

    name: str
    """Its name in the explanation."""

    layer: str
    """The layer or layers of the model, `{n}` for the number of the block."""

    weights: tuple = ()
    """Its `Weight`s."""

    spelling: str | None = None
    """The formula of its parameters as the article writes it; None for the one that follows from the shapes."""

    operations: str = "0"
    """Multiplications and additions of its matrix products in a forward pass, for one run of the block."""

    kept: str = "0"
    """Values in the dtype of computation that a training step retains for its backward pass, for one run of the block.

    That is what the backward pass of a layer needs and no other layer already counts: the operands of products, the inputs of
    activations and norms, the probabilities of attention and of the outputs. Dropout masks, a byte per value, are left out.

    Reference: Korthikanti et al., 2022, section 4.1 (https://arxiv.org/abs/2205.05198)."""

    kept_float32: str = "0"
    """Such values that are always float32."""

    held: tuple = ()
    """What a compiled step retains, as `Held`; it recomputes everything else in the operations that need it."""

    working: tuple = ()
    """What it also holds while the backward pass of the part runs, as `Held`: recomputed values and gradients."""

    @property
    def params(self) -> str:
        """The formula of its parameters, for one block if it is in a block."""
        return self.spelling or formula_of(self.weights)

    def count(self, letters: Mapping[str, int]) -> int:
        """The number of its parameters by the shapes of its weights, for one block if it is in a block.

        Args:
            letters: letter to number, as from `formulas.letters_of`.
        """
        return sum(value("·".join(weight.shape), letters) for weight in self.weights)


def formula_of(weights):
    """The parameters of weights in letters: equal shapes are counted, and the weights of each of several modules are in brackets.

    Example:

    >>> formula_of([Weight("gamma", ("H",)), Weight("beta", ("H",))])
    '2·H'
    >>> formula_of([Weight("output/kernel", ("FFD", "H")), Weight("output/bias", ("H",))])
    'FFD·H + H'
    """
    modules = [list(group) for _, group in groupby(weights, lambda weight: weight.role.rpartition("/")[0])]
    sums = []
    for module in modules:
        counts = {}
        for weight in module:
            shape = "·".join(weight.shape)
            counts[shape] = counts.get(shape, 0) + 1
        sums.append(" + ".join(shape if count == 1 else f"{count}·{shape}" for shape, count in counts.items()))
    if len(sums) == 1:
        return sums[0]
    return " + ".join(f"({text})" for text in sums) or "0"


def in_letters(part, **letters):
    """A part with other letters in its formulas and shapes, such as `E="H"` for tables as wide as the rest."""

    def replaced(text):
        return re.sub(r"[A-Z]+", lambda found: letters.get(found[0], found[0]), text)

    def of_weight(weight):
        return replace(weight, shape=tuple(map(replaced, weight.shape)))

    formulas = {name: replaced(getattr(part, name)) for name in ("operations", "kept", "kept_float32")}
    spelling = part.spelling and replaced(part.spelling)
    return replace(part, weights=tuple(map(of_weight, part.weights)), spelling=spelling, **formulas)
