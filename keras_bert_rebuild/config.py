"""The architecture of one model as data."""

import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from keras_bert_rebuild.anatomy import heads, parts
from keras_bert_rebuild.anatomy.encoder import Encoder, bert_encoder
from keras_bert_rebuild.files.limits import check_limit, is_number, limit

# The heads that a model can have, in the order of its outputs.
HEADS = tuple(heads.HEADS)

# Integer fields and their minimums.
WHOLE_NUMBERS = (
    ("vocab_size", 1),
    ("hidden_size", 1),
    ("num_hidden_layers", 0),
    ("num_attention_heads", 1),
    ("intermediate_size", 1),
    ("max_position_embeddings", 1),
    ("position_offset", 0),
    ("type_vocab_size", 0),
    ("pad_token_id", 0),
    ("num_tasks", 0),
    ("adapter_size", 0),
    ("embedding_size", 1),
    ("num_hidden_groups", 1),
)
# Fields with the same limit as another field.
LIMIT_OF = {
    "position_offset": "max_position_embeddings",
    "pad_token_id": "vocab_size",
    "adapter_size": "intermediate_size",
    "embedding_size": "hidden_size",
    "num_hidden_groups": "num_hidden_layers",
}
ACTIVATION_FIELDS = ("hidden_act", "mlm_act", "pooler_act", "attention_act")
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")
NOT_NEGATIVE = ("initializer_range", "layer_norm_eps")

# The config classes of families; `BertConfig` for families that are not here.
CONFIG_CLASSES: dict[str, Any] = {}


def check_heads(heads: Sequence[str]) -> None:
    """Refuse anything but a list of names of heads.

    Raises:
        ValueError: a name is unknown, or `heads` is a string, which would be iterated letter by letter.
    """
    if isinstance(heads, str) or any(head not in HEADS for head in heads):
        raise ValueError(f"heads must be a list of some of {', '.join(HEADS)}; got {heads!r}.")


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The architecture of a BERT or a model of a related family, with the names of `bert_config.json`. Defaults are BERT-base.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805).

    Example:

    >>> BertConfig(num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, intermediate_size=4096).num_params(["pooler"])
    335141888
    """

    family: str = "bert"
    """The name of the family, `model_type` in `config.json`, which decides the names of weights in other libraries' files."""

    vocab_size: int = 30522
    """Size of the vocabulary."""

    hidden_size: int = 768
    """Width of the vectors between layers."""

    embedding_size: int | None = None
    """Width of the embedding tables, which a dense layer projects to `hidden_size`; None for `hidden_size` without that layer."""

    num_hidden_layers: int = 12
    """Number of encoder blocks."""

    num_hidden_groups: int | None = None
    """Number of distinct encoder blocks, each used for an equal span of the stack; None if every block has its own weights."""

    num_attention_heads: int = 12
    """Attention heads per block; must divide `hidden_size`."""

    pruned_heads: Mapping[int, Sequence[int]] | Sequence[tuple[int, Sequence[int]]] = ()
    """Pruned attention heads by block, both counted from 0; the width of the others is unchanged. Stored as a sorted tuple of
    pairs."""

    intermediate_size: int = 3072
    """Width inside the feed-forward network."""

    hidden_act: object = "gelu"
    """Activation of the feed-forward network: one of `layers.ACTIVATIONS`, a name of Keras or a function. "gelu" is the tanh form,
    as in Google's files, "gelu_erf" the one with the error function, which Hugging Face's files call "gelu"."""

    mlm_act: object = None
    """Activation of the MLM head; None for `hidden_act`."""

    pooler_act: object = "tanh"
    """Activation of the pooler, the dense layer on the first token."""

    attention_act: object = None
    """Activation of queries, keys, values and the attention output; None for BERT."""

    hidden_dropout_prob: float = 0.1
    """Dropout rate of the embedding and of every sub-layer's output; 0 leaves the dropout layers out."""

    attention_probs_dropout_prob: float = 0.1
    """Dropout rate of attention probabilities; above 0, training does not use the fused attention kernel."""

    classifier_dropout: float | None = None
    """Dropout rate before the output layer of a task head; None for `hidden_dropout_prob`."""

    max_position_embeddings: int = 512
    """Rows of the position table."""

    position_offset: int = 0
    """Row of the first position; the maximum sequence length is the size of the table minus this number."""

    type_vocab_size: int = 2
    """Rows of the segment table; 0 for a model without segments."""

    initializer_range: float | None = 0.02
    """Standard deviation of the truncated normal initialisation of weights; None for keras_bert's Glorot initialisation."""

    layer_norm_eps: float = 1e-12
    """Added to the variance in every layer normalisation."""

    pad_token_id: int = 0
    """The token id of padding."""

    num_tasks: int = 0
    """Rows of the task table; 0 for a model without task embedding."""

    adapter_size: int = 0
    """Width inside the adapters, small networks that are trained while the encoder is frozen (`use_adapter` of `get_model`); 0 for
    none."""

    labels: Sequence[str] = ()
    """Names of the classes of a classification head, in the order of its outputs."""

    problem_type: str | None = None
    """The problem of the head "classification", in Hugging Face's terms: "single_label_classification",
    "multi_label_classification" or "regression"; None if not given, as in most files."""

    crf: bool = False
    """Whether the head "token_classification" ends in a `ConditionalRandomField`."""

    dropout_before_pooler: bool = False
    """Whether the head "classification" also applies dropout before its dense layer, as RoBERTa and ELECTRA do."""

    def __init_subclass__(cls, families: Sequence[str] = (), **kwargs: Any) -> None:
        """Register a subclass for families whose anatomy has additional fields."""
        super().__init_subclass__(**kwargs)
        CONFIG_CLASSES.update(dict.fromkeys(families, cls))

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise ValueError(f"labels must be a list of names; got the string {self.labels!r}.")
        check_limit("labels", len(self.labels), "labels")
        for name in ("crf", "dropout_before_pooler"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False; got {getattr(self, name)!r:.80}.")
        # Lists, as from JSON, would make the config unhashable.
        object.__setattr__(self, "labels", tuple(self.labels))
        for name, minimum in WHOLE_NUMBERS:
            value = getattr(self, name)
            if value is None and name in ("embedding_size", "num_hidden_groups"):
                continue
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < minimum:
                raise ValueError(f"{name} must be a whole number of at least {minimum}; got {value!r:.80}.")
            check_limit(LIMIT_OF.get(name, name), value, name)
        for name in RATES:
            value = getattr(self, name)
            if value is None and name == "classifier_dropout":
                continue
            if not is_number(value) or not 0 <= value < 1:
                raise ValueError(f"{name} must be a rate in [0, 1); got {value!r:.80}.")
        for name in NOT_NEGATIVE:
            value = getattr(self, name)
            if value is None and name == "initializer_range":
                continue
            if not is_number(value) or not 0 <= value <= limit("factor"):
                raise ValueError(f"{name} must be a number of at least 0 and at most {limit('factor'):,}; got {value!r:.80}.")
        for name in ACTIVATION_FIELDS:
            value = getattr(self, name)
            if not (value is None and name != "hidden_act") and not isinstance(value, str) and not callable(value):
                raise ValueError(f"{name} must be the name of an activation or a function; got {value!r:.80}.")
        for name in ("family", "problem_type"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name == "problem_type"):
                raise ValueError(f"{name} must be a string; got {value!r:.80}.")
        own = CONFIG_CLASSES.get(self.family, BertConfig)
        if not isinstance(self, own):
            raise ValueError(f"a config of the family {self.family} must be a {own.__name__}; got a {type(self).__name__}.")
        if self.position_offset >= self.max_position_embeddings:
            raise ValueError(
                f"position_offset must be below max_position_embeddings={self.max_position_embeddings}; got {self.position_offset}."
            )
        object.__setattr__(self, "pruned_heads", self._pruned_heads())
        groups = self.num_hidden_groups
        if groups is not None and self.num_hidden_layers % groups:
            raise ValueError(f"num_hidden_groups must divide num_hidden_layers={self.num_hidden_layers}; got {groups}.")

    def _pruned_heads(self):
        """The pruned heads as a sorted tuple of pairs of a block and its heads; a ValueError if a head does not exist."""
        heads_by_block, pruned = self.pruned_heads, {}
        if not heads_by_block:
            return ()
        try:
            for block, heads in heads_by_block.items() if isinstance(heads_by_block, Mapping) else heads_by_block:
                number = int(block) if isinstance(block, str) else operator.index(block)  # the keys of JSON are strings
                pruned[number] = tuple(sorted({operator.index(head) for head in heads}))
        except (TypeError, ValueError):
            raise ValueError(f"pruned_heads must map block numbers to lists of heads; got {heads_by_block!r:.80}.") from None
        for block, heads in pruned.items():
            if not 0 <= block < self.num_distinct_blocks:
                raise ValueError(f"pruned_heads must have blocks from 0 to {self.num_distinct_blocks - 1}; got {block}.")
            if heads and not 0 <= heads[0] <= heads[-1] < self.num_attention_heads:
                raise ValueError(f"pruned_heads must have heads from 0 to {self.num_attention_heads - 1}; got {list(heads)!s:.80}.")
            if len(heads) == self.num_attention_heads:
                raise ValueError(f"pruned_heads must leave every block at least one head; got all heads of block {block}.")
        pruned = {block: heads for block, heads in sorted(pruned.items()) if heads}
        if pruned and self.hidden_size % self.num_attention_heads:
            raise ValueError(f"num_attention_heads must divide hidden_size={self.hidden_size}; got {self.num_attention_heads}.")
        if pruned and type(self).encoder is not BertConfig.encoder:
            raise ValueError(f"pruned_heads must be empty except for families with BERT's attention; the family is {self.family}.")
        return tuple(pruned.items())

    @property
    def embedding_width(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size or self.hidden_size

    @property
    def num_distinct_blocks(self) -> int:
        """The number of encoder blocks with their own weights."""
        return min(self.num_hidden_groups or self.num_hidden_layers, self.num_hidden_layers)

    @property
    def max_length(self) -> int:
        """The maximum sequence length."""
        return self.max_position_embeddings - self.position_offset

    def block_of_layer(self, layer: int) -> int:
        """The index of the block whose weights a layer of the stack uses, both from 0."""
        return layer * self.num_distinct_blocks // self.num_hidden_layers

    def replace(self, **changes: Any) -> Self:
        """A config with some fields changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A config of the family's class from the fields among `values`; other keys are ignored."""
        cls = CONFIG_CLASSES.get(str(values.get("family")), cls)
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})

    def encoder(self) -> Encoder:
        """The anatomy of the model, from which it is built, counted and explained; overridden by families with another anatomy."""
        return bert_encoder(self)

    def num_params(self, heads: Sequence[str] = ("mlm", "nsp")) -> int:
        """Parameters of the model, counted without building it.

        Args:
            heads: names of heads; empty for the encoder alone. Heads that use the pooler share it.

        Raises:
            ValueError: a head is unknown.

        Example:

        >>> BertConfig(vocab_size=30000).num_params()
        109705010
        """
        check_heads(heads)
        return parts.num_params(self.encoder(), heads)
