"""How an encoder normalises and how it encodes the order of tokens."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Norm:
    """A normalisation over the features of each token."""

    epsilon: float
    """Epsilon, added to the variance."""

    kind: str = "layer"
    """"layer" or "rms" (RMSNorm, which subtracts no mean and has no bias)."""

    bias: bool = True
    """Whether there is a learned bias."""


@dataclass(frozen=True)
class Positions:
    """How the positions of tokens are encoded."""

    kind: str
    """"table": learned vectors added to the embedding; "rotary": queries and keys rotated by an angle proportional to the position;
    "sinusoidal": fixed sines and cosines added to the embedding; "disentangled": content-to-position terms added to the attention
    scores; "relative": scores against sinusoids of distances and segments, with learned biases (Transformer-XL); or "none"."""

    rows: int
    """The maximum sequence length, plus `offset` for a learned table; for disentangled positions the rows of the table of
    distances."""

    offset: int = 0
    """Row of the first position in a learned table."""

    theta: float = 10000.0
    """For rotary positions, the base of the angles: pair i of a head of width K rotates by theta^(-2i/K) per position."""

    reach: int = 0
    """For disentangled and relative positions, the distance beyond which distances are clipped; 0 for no limit."""

    buckets: int = 0
    """For disentangled positions, the number of log buckets for distances on either side; 0 for a row per distance."""

    terms: tuple = ()
    """For disentangled positions, the terms: "c2p", content to position, and "p2c", position to content."""

    shared_keys: bool = False
    """Whether distances share the projections of queries and keys instead of having their own."""

    norm: Norm | None = None
    """The norm of the table of distances; None for no norm."""

    memory: int = 0
    """For relative positions, how many hidden states are cached as memory for the next segment of a text; 0 for all."""

    reused: int = 0
    """For relative positions, how many tokens of a segment may be cached; 0 for all."""

    factor: float = 1.0
    """For rotary positions, the linear scaling factor: positions are divided by it."""
