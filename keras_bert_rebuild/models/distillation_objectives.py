"""The objectives of distillation: each as data, with the loss of every position."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
from keras import ops

from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.layers.products import product
from keras_bert_rebuild.models.distillation_targets import chunked_soft_target_losses, relation_losses, soft_target_losses
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph

# The vectors in the attention of a block, and MiniLMv2's pairs of them.
VECTORS = ("query", "key", "value")
SELF_RELATIONS = tuple((name, name) for name in VECTORS)

MEASURES = ("cosine", "mse")


@dataclass(frozen=True)
class Seen:
    """The outputs of a model for a batch in a step that objectives may read."""

    graph: PretrainingGraph
    states: Sequence[Any]
    """The input of the first block, and the outputs of the blocks; of the last one after the final norm."""

    mask: Any
    """`(batch, length)`, False at padding, or the numbers of sequences."""

    table: Any = None
    """The token table."""

    features: Any = None
    """The features that are multiplied with it, `(batch, slots, embedding)`; None without an MLM head."""

    logits: Any = None
    """The logits of the MLM head, `(batch, slots, vocabulary)`; None if they have not been computed."""

    def all_logits(self) -> Any:
        """The logits of the MLM head, computed if necessary."""
        if self.logits is not None:
            return self.logits
        return self.graph.model.get_layer("MLM-Sim")([self.features, self.table], return_logits=True)


@dataclass(frozen=True, kw_only=True)
class Objective(abc.ABC):
    """An objective of distillation. Abstract."""

    weight: float = 1.0
    """Weight of the loss."""

    name: ClassVar[str]
    """The name of the output with the loss of every position."""

    at_labels: ClassVar[bool] = False
    """Whether the loss is at the positions to predict; otherwise it is at all tokens except padding."""

    def __post_init__(self):
        if not is_number(self.weight) or self.weight <= 0:
            raise ValueError(f"the weight of {self.name} must be a number above 0; got {self.weight!r}.")

    @abc.abstractmethod
    def last_block(self, teacher: Any) -> int:
        """The last block of the teacher that is read, counted from 1.

        Args:
            teacher: the `BertConfig` of the teacher.
        """

    def check(self, teacher: Any, student: Any) -> None:  # noqa: B027, most suit any pair
        """Refuse configs that the objective cannot compare.

        Args:
            teacher, student: the `BertConfig` of each.

        Raises:
            ValueError: layers do not exist, or sizes do not match.
        """

    def projection(self, teacher: Any, student: Any) -> Any:
        """A layer that is trained with the student and dropped afterwards; None if none is needed."""
        return None

    @abc.abstractmethod
    def losses(self, teacher: Seen, student: Seen, projection: Any = None, chunk: int | None = None) -> Any:
        """The loss of every position, `(batch, slots)` or `(batch, length)`, float32.

        Args:
            teacher, student: the outputs of both.
            projection: the layer from `projection`.
            chunk: number of positions whose logits are in memory at once; None for all.
        """


@dataclass(frozen=True, kw_only=True)
class SoftTargets(Objective):
    """The teacher's distribution over the vocabulary at the masked positions: T² · KL(teacher ‖ student).

    Reference: Hinton et al., 2015, section 2 (https://arxiv.org/abs/1503.02531); Sanh et al., 2019, section 2, for T = 2
    (https://arxiv.org/abs/1910.01108, `distiller.py` of huggingface/transformers).
    """

    temperature: float = 2.0
    """T, by which both logits are divided."""

    name = "Soft"
    at_labels = True

    def __post_init__(self):
        super().__post_init__()
        if not is_number(self.temperature) or self.temperature <= 0:
            raise ValueError(f"temperature must be a number above 0; got {self.temperature!r}.")

    def last_block(self, teacher: Any) -> int:
        return teacher.num_hidden_layers

    def losses(self, teacher: Seen, student: Seen, projection: Any = None, chunk: int | None = None) -> Any:
        if chunk is None:
            return soft_target_losses(teacher.all_logits(), student.all_logits(), self.temperature)
        theirs, mine = (seen.graph.factors(seen.features, seen.table) for seen in (teacher, student))
        losses = chunked_soft_target_losses(theirs, mine, chunk, self.temperature)
        return ops.reshape(losses, ops.shape(student.features)[:-1])


@dataclass(frozen=True, kw_only=True)
class HiddenStates(Objective):
    """The hidden states of mapped layers: 1 − cosine, or the mean of the squared differences, averaged over the pairs of layers.

    If the widths differ, one learned projection of the student's states serves all pairs.

    Reference: Sanh et al., 2019, section 2, for "cosine" of the last layers; Jiao et al., 2020, equation 8, for "mse" and the
    projection (https://arxiv.org/abs/1909.10351).
    """

    layers: Sequence[tuple[int, int]]
    """Pairs of a layer of the teacher and one of the student: blocks from 1, or 0 for the embedding."""

    measure: str = "cosine"
    """"cosine" or "mse"."""

    name = "Hidden"

    def __post_init__(self):
        super().__post_init__()
        if self.measure not in MEASURES:
            raise ValueError(f"the measure of hidden states must be one of {', '.join(MEASURES)}; got {self.measure!r}.")

    def last_block(self, teacher: Any) -> int:
        return max(theirs for theirs, _ in self.layers)

    def check(self, teacher: Any, student: Any) -> None:
        check_pairs("hidden states", self.layers, teacher, student, lowest=0)

    def projection(self, teacher: Any, student: Any) -> Any:
        if teacher.hidden_size == student.hidden_size:
            return None
        layer = keras.layers.Dense(teacher.hidden_size, name="Distillation-Projection")
        layer.build((None, None, student.hidden_size))
        return layer

    def losses(self, teacher: Seen, student: Seen, projection: Any = None, chunk: int | None = None) -> Any:
        total: Any = 0.0
        for theirs, mine in self.layers:
            x = student.states[mine]
            x = ops.cast(x if projection is None else projection(x), "float32")
            total = total + _difference(self.measure, ops.cast(teacher.states[theirs], "float32"), x)
        return total / len(self.layers)


@dataclass(frozen=True, kw_only=True)
class AttentionRelations(Objective):
    """Relations between tokens by queries, keys and values of mapped blocks, averaged over the pairs of blocks.

    Vectors are taken before rotary positions, and all tokens are related, even if attention has a window.

    Reference: Wang et al., 2021, section 3, for MiniLMv2 (https://arxiv.org/abs/2012.15828); Wang et al., 2020, for "query" with
    "key" and "value" with "value" in MiniLM (https://arxiv.org/abs/2002.10957).
    """

    layers: Sequence[tuple[int, int]]
    """Pairs of a block of the teacher and one of the student, from 1."""

    heads: int
    """Number of relation heads, which divides both widths."""

    relations: Sequence[tuple[str, str]] = SELF_RELATIONS
    """Pairs of "query", "key" and "value"."""

    name = "Relation"

    def __post_init__(self):
        super().__post_init__()
        if not self.relations or any(len(pair) != 2 or any(part not in VECTORS for part in pair) for pair in self.relations):
            raise ValueError(f"relations must be pairs of {', '.join(VECTORS)}; got {list(self.relations)!r}.")

    def last_block(self, teacher: Any) -> int:
        return max(theirs for theirs, _ in self.layers)

    def check(self, teacher: Any, student: Any) -> None:
        check_pairs("attention relations", self.layers, teacher, student, lowest=1)
        for whose, config in (("teacher", teacher), ("student", student)):
            if self.heads < 1 or config.hidden_size % self.heads:
                raise ValueError(f"relation heads must divide the width of the {whose}, {config.hidden_size}; got {self.heads}.")

    def losses(self, teacher: Seen, student: Seen, projection: Any = None, chunk: int | None = None) -> Any:
        names = list(dict.fromkeys(name for pair in self.relations for name in pair))
        total: Any = 0.0
        for theirs, mine in self.layers:
            of_teacher, of_student = (
                _projections(seen.graph.view.blocks[number - 1], seen.states[number - 1], names)
                for seen, number in ((teacher, theirs), (student, mine))
            )
            total = total + relation_losses(of_teacher, of_student, self.relations, self.heads, student.mask)
        return total / len(self.layers)


def check_pairs(what: str, pairs: Sequence[tuple[int, int]], teacher: Any, student: Any, lowest: int) -> None:
    """Refuse a mapping of layers that do not exist, or an empty one.

    Args:
        what: what the mapping is for, used in the error.
        pairs: pairs of a layer of the teacher and one of the student.
        teacher, student: the `BertConfig` of each.
        lowest: the number of the first layer.

    Raises:
        ValueError: there are no pairs, or a layer does not exist.
    """
    if not pairs:
        raise ValueError(f"the layers of {what} must have at least one pair, of a teacher's and a student's; got none.")
    for theirs, mine in pairs:
        for whose, number, config in (("teacher", theirs, teacher), ("student", mine, student)):
            if not lowest <= number <= config.num_hidden_layers:
                last = config.num_hidden_layers
                raise ValueError(f"the layers of {what} must be from {lowest} to {last} in the {whose}; got {theirs}:{mine}.")


def _projections(block, x, names):
    """Queries, keys or values of a block with input `x` by name, `(batch, length, hidden)`, before rotary positions."""
    norm = block.halves[0].norm
    read = norm(x) if block.order == "pre" and norm is not None else x
    return {name: product(getattr(block.attention, f"{name}_dense"), read) for name in names}


def _difference(measure, theirs, mine):
    if measure == "mse":
        return ops.mean(ops.square(theirs - mine), axis=-1)
    return 1.0 - ops.sum(_unit(theirs) * _unit(mine), axis=-1)


def _unit(x):
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=-1, keepdims=True), 1e-24))


# The outputs with the losses of positions.
IMITATED = tuple(kind.name for kind in (SoftTargets, HiddenStates, AttentionRelations))
