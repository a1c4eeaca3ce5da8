"""What an attribution is: scores of the words and tokens of a text for one number that a model gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Attribution:
    """How much every word of a text carried a number of a model."""
