"""The parts that an encoder is put together from. A family turns its config into an `Encoder`; everything else reads that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Norm:
    """A normalisation over the features of a token."""

    epsilon: float
    """Added to the variance."""

    kind: str = "layer"
    """"layer", or "rms", which subtracts no mean and has no bias."""

    bias: bool = True
    """Whether a bias is learnt."""


@dataclass(frozen=True)
class Positions:
    """How tokens know where they are."""

    kind: str
    """"table", rows added to the embedding; "rotary", queries and keys turned by an angle that grows with the offset."""

    rows: int
    """The longest sequence, with `offset` rows before the first position."""

    offset: int = 0
    """Row of the first position of a table."""

    theta: float = 10000.0
    """Of rotary positions, the base of the angles: pair i of a head of width K turns by theta^(-2i/K) a token."""


@dataclass(frozen=True)
class Attention:
    """Self-attention with several heads."""

    heads: int
    activation: Any = None
    """Of queries, keys, values and the output; None in BERT."""

    dropout: float = 0.0
    """Rate at which probabilities are dropped."""

    bias: bool = True
    """Whether the four projections have biases."""

    rotary: Positions | None = None
    """Rotary positions of queries and keys."""

    window: int | None = None
    """Tokens to either side that a token sees; None for all."""


@dataclass(frozen=True)
class FeedForward:
    """Two dense layers; gated, the activation of a third is multiplied with the first."""

    inner: int
    activation: Any
    gated: bool = False
    bias: bool = True


@dataclass(frozen=True)
class Block:
    """An encoder block. The same number twice in a stack is the same block twice: shared weights."""

    number: int
    """From 1; its layers are called `Encoder-number-...`."""

    attention: Attention
    feed_forward: FeedForward
    norm: Norm
    order: str = "post"
    """"post": x = norm(x + f(x)). "pre": x = x + f(norm(x))."""

    dropout: float = 0.0
    """Rate of what each half answers, before it is added."""

    adapter: int = 0
    """Width inside an adapter behind each half; 0 for none."""

    first_norm: bool = True
    """False where attention reads what the embedding's norm has just made, as in the first block of ModernBERT."""


@dataclass(frozen=True)
class Embedding:
    """Tables that are added, and what follows them."""

    tokens: int
    width: int
    norm: Norm
    positions: Positions
    pad_id: int = 0
    segments: int = 0
    tasks: int = 0
    dropout: float = 0.0
    widened: bool = False
    """Whether a dense layer makes the vectors as wide as the blocks."""


@dataclass(frozen=True)
class Encoder:
    """An encoder and the heads that it can have."""

    width: int
    """Of the vectors between blocks."""

    embedding: Embedding
    blocks: tuple
    """`Block`s in the order in which they run."""

    heads: Mapping[str, Any] = field(default_factory=dict)
    """Name of a head to its `heads.Head`, in the order of outputs."""

    final_norm: Norm | None = None
    """Behind the last block, where blocks normalise before and not after."""

    labels: int = 0
    """Classes of the heads that have classes."""

    crf: bool = False
    """Whether tags are a chain."""

    head_dropout: float = 0.0
    """Rate before the last layer of a head of classes."""

    initializer_range: float | None = None
    """Deviation of the truncated normal that kernels and tables start from; None for that of each layer."""

    mlm_activation: Any = None
    pooler_activation: Any = None

    @property
    def distinct(self) -> tuple:
        """The blocks with weights of their own, in the order of their numbers."""
        return tuple({block.number: block for block in self.blocks}.values())
