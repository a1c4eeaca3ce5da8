"""Floating-point operations of a model's matrix products."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What a batch asks of a model, padding left out; works can be added."""

    tokens: int = 0
    """Tokens of all examples."""

    squares: int = 0
    """The squares of the lengths of the examples, summed: what attention grows with."""

    predictions: int = 0
    """Positions whose token is predicted."""

    examples: int = 0
    """Examples."""

    def __add__(self, other):
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def forward_flops(config, work, pair_head=True):
    """Multiplications and additions of the matrix products of a forward pass with an MLM head.

        per token and block       2 (4 D² + 2 D F)        projections of attention, feed-forward
        per example and block     4 L² D                  queries by keys, probabilities by values
        per prediction            2 (D E + E V)           transform and vocabulary
        per example               2 (D² + 2 D)            pooler and pair head

    Args:
        config: a `BertConfig`.
        work: a `Work`.
        pair_head: whether there is an NSP or SOP head.

    Reference: Kaplan et al., 2020, section 2.1 (https://arxiv.org/abs/2001.08361).
    """
    d, e, f, v = config.hidden_size, config.embedding_width, config.intermediate_size, config.vocab_size
    blocks = config.num_hidden_layers * (2 * (4 * d * d + 2 * d * f) * work.tokens + 4 * d * work.squares)
    widened = 2 * e * d * work.tokens if config.embedding_size is not None else 0
    heads = 2 * (d * e + e * v) * work.predictions + (2 * (d * d + 2 * d) * work.examples if pair_head else 0)
    return blocks + widened + heads


def train_flops(config, work, pair_head=True):
    """Operations of a training step: the forward pass, and twice as many for the gradients of activations and weights."""
    return 3 * forward_flops(config, work, pair_head)
