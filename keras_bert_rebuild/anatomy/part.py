"""A part of an encoder: a layer with weights, what it computes, what a training step keeps of it, and how it is cut."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from keras_bert_rebuild.anatomy.formulas import value

# The sections of an encoder, in the words of the explanation.
EMBEDDING, BLOCK, HEAD = "Embedding", "Encoder block", "Heads"

# Axis of a device mesh along which weights are cut.
MODEL = "model"

# Bytes of a number that is kept: of the dtype policy's arithmetic, of what only goes into products, and of what is float32 under
# every policy. A TPU rounds the operands of products to bfloat16, also under float32, and its compiler keeps them so.
COMPUTE, PRODUCT, FLOAT32 = "compute", "product", "float32"


@dataclass(frozen=True)
class Weight:
    """A weight of a part. Its shape is in the letters of `formulas.LETTERS`, or in numbers."""

    role: str
    """Where it lies in its layer, such as "query/kernel"; with the layer's name before it the path of the variable."""

    shape: tuple
    """Letters or numbers, such as `("H", "FFD")`."""

    cut: tuple = ()
    """Ways to cut it over devices, each an axis or None for every dimension: the first that divides evenly is taken."""

    head_axis: int | None = None
    """The axis along which attention heads lie one behind the other; None where no head has a part of its own."""

    adapter: bool = False
    """Whether a low-rank adapter is put on it unless something else is asked for."""


@dataclass(frozen=True)
class Held:
    """Numbers of one example that a compiled training step holds for its backward pass."""

    what: str
    """What they are."""

    shape: tuple
    """The shape of one array in letters; on a TPU the last two axes are filled up to tiles."""

    dtype: str = COMPUTE
    """Which numbers they are: `COMPUTE`, `PRODUCT` or `FLOAT32`."""

    times: str = "1"
    """How many such arrays, in letters."""

    scores: bool = False
    """Whether they are there only where attention scores are written out, not computed again by a fused kernel."""


@dataclass(frozen=True)
class Part:
    """A step of the article, or one that other encoders have besides. Formulas are those of `formulas.py`."""

    article: int | None
    """Its number in the article; None for what the article's model does not have."""

    section: str
    """Embedding, encoder block or heads."""

    name: str
    """What it is."""

    layer: str
    """The layer or layers of the model, `{n}` for the number of the block."""

    weights: tuple = ()
    """Its `Weight`s."""

    spelling: str | None = None
    """The formula of its parameters as the article writes it; None for the one that follows from the shapes."""

    operations: str = "0"
    """Multiplications and additions of its matrix products in a forward pass; of one run of the block."""

    kept: str = "0"
    """Values in the dtype of computation that a training step keeps for its backward pass; of one run of the block.

    That is what the backward pass of a layer needs and no other layer is said to keep: what a product multiplies, what an
    activation and a norm started from, the probabilities of attention and of the outputs. Masks of dropout, a byte each, are
    left out.
    Reference: Korthikanti et al., 2022, section 4.1 (https://arxiv.org/abs/2205.05198)."""

    kept_float32: str = "0"
    """Such values that are float32 whatever the dtype."""

    held: tuple = ()
    """`Held` by a compiled step, which computes all else again inside the operations that need it."""

    working: tuple = ()
    """`Held` besides while the backward pass of the part runs: values again, their gradients, those before them."""

    @property
    def params(self) -> str:
        """The formula of its parameters; of one block, where it is in a block."""
        return self.spelling or formula_of(self.weights)

    def count(self, letters: Mapping[str, int]) -> int:
        """Its parameters, by the shapes of its weights; of one block, where it is in a block.

        Args:
            letters: letter to number, as from `formulas.letters_of`.
        """
        return sum(value("·".join(weight.shape), letters) for weight in self.weights)


def formula_of(weights):
    """The parameters of weights in letters: equal shapes counted, the weights of one module in brackets where there are several.

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
    """A part with letters of its formulas and shapes exchanged, such as `E="H"` where tables are as wide as the rest."""

    def exchanged(text):
        return re.sub(r"[A-Z]+", lambda found: letters.get(found[0], found[0]), text)

    def of_weight(weight):
        return replace(weight, shape=tuple(map(exchanged, weight.shape)))

    formulas = {name: exchanged(getattr(part, name)) for name in ("operations", "kept", "kept_float32")}
    spelling = part.spelling and exchanged(part.spelling)
    return replace(part, weights=tuple(map(of_weight, part.weights)), spelling=spelling, **formulas)
