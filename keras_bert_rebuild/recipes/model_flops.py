"""Floating-point operations of a model's matrix products, and how many of them this machine does in a second."""

import time
from dataclasses import dataclass

from keras import ops

from keras_bert_rebuild.anatomy.formulas import letters_of, value
from keras_bert_rebuild.anatomy.part import EMBEDDING
from keras_bert_rebuild.anatomy.parts import parts_of


@dataclass(frozen=True)
class Work:
    """The work of a model on a batch, without padding; works can be added."""

    tokens: int = 0
    """Tokens of all examples."""

    squares: int = 0
    """The sum of the squared lengths of the examples, which the cost of attention is proportional to."""

    predictions: int = 0
    """Positions whose tokens are predicted."""

    examples: int = 0
    """Examples."""

    def __add__(self, other):
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def forward_flops(config, work, pair_head=True, heads=None):
    """Multiplications and additions of the matrix products of a forward pass with an MLM head.

    The operations of the anatomy, where the square of the tokens of a text is `squares`, and the texts of a batch are `examples`:

        per token and block       2 (4 D² + 2 D F)        projections of attention, feed-forward
        per example and block     4 L² D                  queries by keys, probabilities by values
        per prediction            2 (D E + E V)           transform and vocabulary
        per example               2 (D² + 2 D)            pooler and pair head

    Args:
        config: a `BertConfig`.
        work: a `Work`.
        pair_head: whether there is an NSP or SOP head.
        heads: the names of the heads instead; None for "mlm" and that one.

    Reference: Kaplan et al., 2020, section 2.1 (https://arxiv.org/abs/2001.08361).
    """
    encoder = config.encoder()
    letters = letters_of(encoder)
    parts = parts_of(encoder, heads or (("mlm", "nsp") if pair_head else ("mlm",)))
    return sum(_of_work(term, letters, work) * runs for part, _, runs in parts for term in part.operations.split(" + "))


def _of_work(term, letters, work):
    """The value of a product of letters for this work."""
    factors = term.split("·")
    tokens, predictions = factors.count("S"), factors.count("N")
    rows = work.predictions if predictions else (work.examples, work.tokens, work.squares)[tokens]
    return rows * value("·".join(factor for factor in factors if factor not in ("B", "S", "N")), letters)


def train_flops(config, work, pair_head=True, heads=None):
    """Operations of a training step: the forward pass, and twice as many for the gradients of activations and weights."""
    return 3 * forward_flops(config, work, pair_head, heads)


def embedding_params(config):
    """Parameters of the embedding without its projection to another width: what two models can share."""
    encoder = config.encoder()
    letters = letters_of(encoder)
    parts = [part for part, _, _ in parts_of(encoder, ()) if part.section == EMBEDDING and part.layer != "Embedding-Mapping"]
    return sum(part.count(letters) for part in parts)


def matrix_ceiling(dtype="float32", seconds=0.5):
    """Floating-point operations per second of a large matrix product, the best of several.

    Args:
        dtype: dtype of the matrices.
        seconds: about how long to measure.
    """
    size = 1024
    while True:  # a product that takes long compared with the overhead of the call
        matrix = ops.full((size, size), 1 / size, dtype=dtype)
        _product(matrix)
        taken = _product(matrix)
        if taken > seconds / 20 or size >= 16384:
            break
        size *= 2
    times = [taken]
    while sum(times) < seconds:
        times.append(_product(matrix))
    return 2 * size**3 / min(times)


def _product(matrix):
    started = time.perf_counter()
    float(ops.convert_to_numpy(ops.cast(ops.matmul(matrix, matrix)[0, 0], "float32")))  # waits for the device
    return time.perf_counter() - started
