"""How an encoder normalises and how it knows the order of tokens."""

from dataclasses import dataclass


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
    """How the positions of tokens are encoded."""

    kind: str
    """"table", rows added to the embedding; "rotary", queries and keys rotated by an angle that grows with the position;
    "sinusoidal", computed sines and cosines added to the embedding; "disentangled", scores of contents and distances added to
    those of contents; "relative", scores of contents, computed vectors of distances and segments, with biases; "none"."""

    rows: int
    """The maximum sequence length, plus the `offset` rows before the first position, of which only a table has that many; of
    disentangled positions the rows of the table of distances."""

    offset: int = 0
    """Row of the first position of a table."""

    theta: float = 10000.0
    """For rotary positions, the base of the angles: pair i of a head of width K rotates by theta^(-2i/K) per position."""

    reach: int = 0
    """For disentangled and relative positions, the distance from which on all distances are one; 0 for none."""

    buckets: int = 0
    """For disentangled positions, the buckets of the distances on either side; 0 for a row for each distance."""

    terms: tuple = ()
    """For disentangled positions, what is added: "c2p", content to position, and "p2c", position to content."""

    shared_keys: bool = False
    """Whether distances are projected by the projections of queries and keys, not by their own."""

    norm: Norm | None = None
    """The norm of the table of distances."""

    memory: int = 0
    """For relative positions, the tokens of a block's input that are its memory for the next segment of a text; 0 for all."""

    reused: int = 0
    """Those of a segment that may become memories; 0 for all."""

    factor: float = 1.0
    """For rotary positions, what positions are divided by."""


# What disentangled attention adds to the scores of contents: content to position, and position to content.
TERMS = ("c2p", "p2c")


def check_distances(buckets: int, reach: int) -> None:
    """Refuse disentangled positions whose buckets do not divide the distances of either side in two.

    Args:
        buckets, reach: as in `Positions`.

    Raises:
        ValueError: `buckets` is odd or below 4 and not 0, or `reach` is not beyond the distances with a row each.
    """
    if buckets and (buckets < 4 or buckets % 2):
        raise ValueError(f"position_buckets must be even and at least 4, or none; got {buckets}.")
    if reach < 1 or (buckets and reach <= buckets // 2 + 1):
        raise ValueError(f"max_relative_positions must be above half of position_buckets={buckets} plus 1; got {reach}.")
