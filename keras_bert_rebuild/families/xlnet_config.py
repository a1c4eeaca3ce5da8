"""The config of XLNet and its anatomy."""

from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.encoder import Attention, Encoder, FeedForward, Positions, bert_encoder
from keras_bert_rebuild.anatomy.heads import heads_at_last_token
from keras_bert_rebuild.config import BertConfig


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(BertConfig, families=("xlnet",)):
    """The fields of BERT, and those of XLNet under their names in `config.json`. The defaults are XLNet-large.

    The model is the content stream with full attention, as in fine-tuning. Segments are only compared with each other, so their ids
    may be any integers; the tokenizer gives 0 and 1 to the texts and 2 to the class token.

    In training, `classifier_dropout` is the only dropout before the last layer of a head; transformers also applies dropout to the
    output of the last block.
    """

    family: str = "xlnet"
    vocab_size: int = 32000
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    hidden_act: object = "gelu_erf"
    classifier_dropout: float | None = 0.1
    pad_token_id: int = 5

    type_vocab_size: int = 3
    """Number of segments of the tokenizer: two texts and the class token. There is no segment table."""

    max_position_embeddings: int = 512
    """Number of tokens that texts are truncated to. No weight depends on it: without `seq_len`, a model takes any length."""

    clamp_len: int = -1
    """The distance beyond which distances are clipped; below 1 for no limit."""

    mem_len: int | None = 512
    """Number of tokens whose vectors `run_with_memories` caches for the next segment of a text; None or 0 for all. It does not
    affect calls of the model, which have no memories."""

    reuse_len: int | None = None
    """Number of tokens of a segment that may be cached; None or 0 for all."""

    use_mems_eval: bool = True
    """Whether other libraries return memories in inference."""

    use_mems_train: bool = False
    """Whether other libraries return memories in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mem_len is None:  # one spelling of no limit
            object.__setattr__(self, "mem_len", 0)
        problem = self._problem()
        if problem:
            raise ValueError(f"{problem}.")

    def _problem(self):
        """What is wrong with the config; None if nothing is."""
        for name in ("use_mems_eval", "use_mems_train"):
            if not isinstance(getattr(self, name), bool):
                return f"{name} must be True or False; got {getattr(self, name)!r:.80}"
        for name, least in (("clamp_len", -1), ("mem_len", 0), ("reuse_len", 0)):
            value = getattr(self, name)
            if value is None and name == "reuse_len":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 1 << 20:
                return f"{name} must be a whole number from {least} to {1 << 20}; got {value!r:.80}"
        fixed = {
            "type_vocab_size": 3,
            "position_offset": 0,
            "embedding_size": None,
            "num_hidden_groups": None,
            "attention_act": None,
        }
        for name, value in fixed.items():
            if getattr(self, name) != value:
                return f"{name} must be {value}, the only value for XLNet; got {getattr(self, name)!r:.80}"
        if self.hidden_size % 2:
            return f"hidden_size must be even, half for sines and half for cosines of distances; got {self.hidden_size}"
        return None

    def encoder(self) -> Encoder:
        """The anatomy: BERT's, with the differences."""
        bert = bert_encoder(self)
        relative = Positions(
            "relative",
            rows=self.max_position_embeddings,
            reach=max(self.clamp_len, 0),
            memory=self.mem_len or 0,
            reused=self.reuse_len or 0,
        )
        attention = Attention(self.num_attention_heads, dropout=self.attention_probs_dropout_prob, bias=False, relative=relative)
        embedding = replace(
            bert.embedding,
            norm=None,
            positions=Positions("none", self.max_position_embeddings),
            segments=0,
            query=True,
        )
        inner = FeedForward(self.intermediate_size, self.hidden_act, dropout=self.hidden_dropout_prob)
        blocks = tuple(replace(block, attention=attention, feed_forward=inner) for block in bert.blocks)
        shared = relative if blocks else None
        return replace(bert, embedding=embedding, blocks=blocks, heads=heads_at_last_token(), relative=shared)
