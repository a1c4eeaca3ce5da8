"""A part of an encoder: a layer with its weights, operations, saved activations and sharding, and the formulas of its sizes."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

# The sections of an encoder, in the order of the explanation.
EMBEDDING, BLOCK, HEAD = "Embedding", "Encoder block", "Heads"

# The two sub-layers of a block, and what may follow each of them, by the suffixes of their layer names.
ATTENTION, FEED_FORWARD, CONVOLUTION = "MultiHeadSelfAttention", "FeedForward", "Convolution"

# Axis of a device mesh along which weights are sharded.
MODEL = "model"

# Dtypes of saved activations: that of the dtype policy, that of the operands of matrix products, and float32 under every policy.
# Under float32, too, a TPU rounds the operands of matrix products to bfloat16, and its compiler saves them in bfloat16.
COMPUTE, PRODUCT, FLOAT32 = "compute", "product", "float32"


@dataclass(frozen=True)
class Weight:
    """A weight of a part. Its shape is in letters of `LETTERS` or in numbers."""

    role: str
    """Its path in its layer, such as "query/kernel"; prefixed with the layer's name, the path of the variable."""

    shape: tuple
    """A tuple of letters or numbers, such as `("H", "FFD")`."""

    cut: tuple = ()
    """Ways to shard it over devices, each with a mesh axis or None per dimension: the first that divides evenly is used."""

    head_axis: int | None = None
    """The axis on which attention heads are concatenated; None if the weight is not split by heads."""

    adapter: bool = False
    """Whether it gets a low-rank adapter by default."""


@dataclass(frozen=True)
class Held:
    """Activations of one example that a compiled training step saves for its backward pass."""

    what: str
    """What they are, in words."""

    shape: tuple
    """The shape of one array in letters; a TPU pads the last two axes to whole tiles."""

    dtype: str = COMPUTE
    """`COMPUTE`, `PRODUCT` or `FLOAT32`."""

    times: str = "1"
    """The number of such arrays, in letters."""

    scores: bool = False
    """Whether they exist only if attention scores are materialised, not recomputed by a fused kernel."""

    recomputed: bool = False
    """Whether they are cheap to compute from others. The compiler for TPUs does that instead of saving them, and the backward pass
    of a block works on them; other compilers save them."""


@dataclass(frozen=True)
class Part:
    """A step of the article, or one that only other encoders have. Formulas are written in these letters."""

    article: int | None
    """Its step in the article; None if the article's model does not have it."""

    section: str
    """Embedding, encoder block or heads."""

    name: str
    """Its name in the explanation."""

    layer: str
    """The layer or layers of the model; `{n}` is the number of the block."""

    weights: tuple = ()
    """Its `Weight`s."""

    spelling: str | None = None
    """The formula of its parameter count as the article writes it; None to derive it from the shapes."""

    operations: str = "0"
    """Additions and multiplications of its matrix products in one forward pass of one block."""

    kept: str = "0"
    """Values in the compute dtype that a training step saves for its backward pass, for one pass through the block.

    Each value is counted once, with the first layer whose backward pass needs it: operands of matrix products, inputs of
    activations and norms, probabilities of attention and of the outputs. Dropout masks, a byte per value, are not counted.

    Reference: Korthikanti et al., 2022, section 4.1 (https://arxiv.org/abs/2205.05198)."""

    kept_float32: str = "0"
    """As `kept`, for values that are always float32."""

    held: tuple = ()
    """What a compiled training step saves; everything else is recomputed in the backward pass."""

    working: tuple = ()
    """What is also in memory during the backward pass of the part: recomputed values and gradients."""

    @property
    def params(self) -> str:
        """The formula of its parameter count, of one block if it is in a block."""
        return self.spelling or formula_of(self.weights)

    def count(self, letters: Mapping[str, int]) -> int:
        """Its parameter count from the shapes of its weights, of one block if it is in a block.

        Args:
            letters: letter to number, see `letters_of`.
        """
        return sum(value("·".join(weight.shape), letters) for weight in self.weights)


def formula_of(weights):
    """The parameter count of weights in letters: equal shapes are combined, each of several sub-layers in parentheses.

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
    """A part with letters in its formulas and shapes replaced, such as `E="H"` for tables of the hidden size."""

    def replaced(text):
        return re.sub(r"[A-Z]+", lambda match: letters.get(match[0], match[0]), text)

    def with_letters(weight):
        return replace(weight, shape=tuple(map(replaced, weight.shape)))

    formulas = {name: replaced(getattr(part, name)) for name in ("operations", "kept", "kept_float32")}
    spelling = part.spelling and replaced(part.spelling)
    return replace(part, weights=tuple(map(with_letters, part.weights)), spelling=spelling, **formulas)


# Each letter and its meaning. E, U, R, C, K, B, N, V and M are not in the article.
LETTERS = (
    ("T", "vocabulary size"),
    ("H", "hidden size"),
    ("D", "the same: the article's letter in steps 6, 13 and 14"),
    ("E", "width of the embedding tables"),
    ("A", "attention heads"),
    ("L", "layers"),
    ("FFD", "width inside the feed-forward block"),
    ("U", "width of the adapters"),
    ("P", "rows of the position table"),
    ("R", "rows of the table of distances"),
    ("C", "classes"),
    ("K", "tasks"),
    ("B", "texts of a batch"),
    ("S", "tokens of a text"),
    ("N", "predicted tokens per text"),
    ("V", "keys per query in windowed attention"),
    ("M", "how often each of these keys is read"),
)

# Texts longer than this many windows are computed in bands; equal to `kernels.conditions.WINDOWS`, which a test checks.
WINDOWS = 8

# The width of a head, the only factor that is neither a letter nor a number.
HEAD_WIDTH = "(D/A)"


def letters_of(encoder, batch=1, length=1, predictions=1):
    """Letter to number for an `Encoder` and a batch, a dictionary; if blocks differ, of the first block."""
    embedding, blocks = encoder.embedding, {}
    if encoder.blocks:
        first = encoder.blocks[0]
        blocks = {"A": first.attention.heads, "FFD": first.feed_forward.inner, "U": first.adapter}
    return {
        "T": embedding.tokens,
        "H": encoder.width,
        "D": encoder.width,
        "E": embedding.width,
        "L": len(encoder.blocks),
        "P": embedding.positions.rows,
        "C": encoder.labels,
        "K": embedding.tasks,
        "B": batch,
        "S": length,
        "N": predictions,
        **({} if encoder.relative is None else {"R": encoder.relative.rows}),
        **band_letters(encoder, length),
        **blocks,
    }


def band_letters(encoder, length):
    """The letters of windowed attention, as a dictionary; empty without windows, of the first such block if several differ.

    Args:
        encoder: an `Encoder`.
        length: tokens of a text.

    Returns:
        "V", the keys per query, and "M", how often a key is read: in bands of three windows each, or all keys once if the text is
        short.
    """
    window = next((block.attention.window for block in encoder.blocks if block.attention.window is not None), None)
    if window is None:
        return {}
    return {"V": 3 * max(window, 1), "M": 3} if length > WINDOWS * window else {"V": length, "M": 1}


def value(formula, letters):
    """The value of a formula: a sum of products; parentheses only group factors.

    Example:

    >>> value("A·D·(D/A)·3 + 3·D + D·D + D", {"A": 12, "D": 768})
    2362368
    """
    terms = formula.replace(HEAD_WIDTH, "W").replace("(", "").replace(")", "").split(" + ")
    sizes = {**letters, "W": letters["D"] // letters["A"] if "A" in letters else 0}
    return sum(math.prod(sizes[factor] if factor in sizes else int(factor) for factor in term.split("·")) for term in terms)


def filled_in(formula, letters):
    """A formula with its letters replaced by numbers.

    Example:

    >>> filled_in("A·D·(D/A)·3 + 3·D", {"A": 12, "D": 768})
    '12·768·64·3 + 3·768'
    """
    pattern = re.escape(HEAD_WIDTH) + "|[A-Z]+|[0-9]+"
    return re.sub(pattern, lambda match: f"{value(match[0], letters):,}", formula)
