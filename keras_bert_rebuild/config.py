"""The architecture of one model as data."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Sizes and rates of a BERT, under the names of `bert_config.json`. The defaults are those of BERT-base.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805).
    """

    vocab_size: int = 30522
    """Tokens of the vocabulary."""

    hidden_size: int = 768
    """Width of the vectors between layers."""

    num_hidden_layers: int = 12
    """Encoder blocks."""

    num_attention_heads: int = 12
    """Heads of a block; must divide `hidden_size`."""

    intermediate_size: int = 3072
    """Width inside the feed-forward block."""

    hidden_act: object = "gelu"
    """Activation of the feed-forward block and of the MLM head: a name that Keras knows or a function. The word "gelu" is the tanh
    form, as in Google's files."""

    attention_act: object = None
    """Activation of queries, keys, values and the attention output; None for BERT."""

    hidden_dropout_prob: float = 0.1
    """Rate at which the embedding and every sub-layer's output is dropped in training; 0 leaves the dropout layers out."""

    attention_probs_dropout_prob: float = 0.0
    """Rate at which attention probabilities are dropped in training; above 0 training leaves the fused attention kernel."""

    max_position_embeddings: int = 512
    """Rows of the position table: the longest sequence."""

    type_vocab_size: int = 2
    """Rows of the segment table."""

    layer_norm_eps: float = 1e-12
    """Added to the variance in every layer normalisation."""

    num_tasks: int = 0
    """Rows of the task table; 0 for a model without task embedding."""

    def to_dict(self):
        """The fields as a dictionary."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values):
        """A config from the fields among `values`; the other keys of a `bert_config.json` are not looked at."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})

    def num_params(self, heads=True):
        """Parameters of the model, counted without building it.

        Args:
            heads: with those of the MLM and the NSP head.

        Example:

        >>> BertConfig(vocab_size=30000).num_params()
        109705010
        """
        d, f, v = self.hidden_size, self.intermediate_size, self.vocab_size
        norm = 2 * d
        embeddings = (v + self.type_vocab_size + self.max_position_embeddings + self.num_tasks) * d + norm
        attention = 4 * (d * d + d)
        feed_forward = d * f + f + f * d + d
        encoder = self.num_hidden_layers * (attention + norm + feed_forward + norm)
        mlm = d * d + d + norm + v
        nsp = d * d + d + 2 * d + 2
        return embeddings + encoder + (mlm + nsp if heads else 0)
