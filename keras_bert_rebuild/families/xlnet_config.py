"""The config of XLNet, and the encoder that it describes."""

from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.encoder import Attention, Encoder, FeedForward, bert_encoder
from keras_bert_rebuild.anatomy.heads import heads_at_last_token
from keras_bert_rebuild.anatomy.positions import Positions
from keras_bert_rebuild.config import BertConfig


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(BertConfig, families=("xlnet",)):
    """BERT's fields, and XLNet's own under the names of its `config.json`. The defaults are XLNet-large.

    The model is the content stream: every token sees every other, as in fine-tuning. Segments are only compared, so that their ids
    may be any numbers; the tokenizer gives 0 and 1 to the texts and 2 to the class token.

    In training `classifier_dropout` is the one dropout before the last layer of a head; transformers also drops from the output of
    the last block.
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
    """Segments of the tokenizer: two texts and the class token. There is no table of them."""

    max_position_embeddings: int = 512
    """The tokens that texts are cut to. No weight depends on it: a model built without `seq_len` takes any length."""

    clamp_len: int = -1
    """The distance from which on all are one; below 1 for none."""

    mem_len: int | None = 512
    """Tokens whose vectors `run_with_memories` returns as memories for the next segment of a text; None or 0 for all of them. A
    call of the model, which has no memories, does not depend on it."""

    reuse_len: int | None = None
    """Tokens of a segment that may become memories; None or 0 for all."""

    use_mems_eval: bool = True
    """Whether other libraries return memories in prediction."""

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
                return f"{name} must be {value}, as XLNet has no other; got {getattr(self, name)!r:.80}"
        if self.hidden_size % 2:
            return f"hidden_size must be even, half for sines and half for cosines of distances; got {self.hidden_size}"
        return None

    def encoder(self) -> Encoder:
        """BERT's anatomy with what differs."""
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
