"""The encoder of the Transformer: scaled embeddings, sinusoidal positions, blocks that normalise after they add, relu.

Reference: Vaswani et al., 2017, sections 3 and 5.4 (https://arxiv.org/abs/1706.03762).
"""

import math
from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.encoder import Encoder, bert_encoder
from keras_bert_rebuild.anatomy.positions import Positions
from keras_bert_rebuild.config import BertConfig

FAMILY = "transformer"


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BertConfig, families=(FAMILY,)):
    """The encoder of the Transformer, with `build_model`. The defaults are the paper's base model.

    The vector of a token is multiplied by the square root of its width (section 3.4), and sines and cosines of its position are added
    (section 3.5). That sum is dropped out (section 5.4) and goes to the first block without a norm. Dropout of a sub-layer, the sum
    and the norm are those of BERT (section 3.1). The four projections of attention have no biases (section 3.2.2), the two layers of
    the feed-forward half do (section 3.3).

    The paper has no segments, no padding, no initializer and no epsilon: padding is recognised as in BERT, kernels start from Glorot's
    uniform distribution, and the epsilon is that of the paper's own program, tensor2tensor. Heads are those of BERT.

    Example:

    >>> TransformerConfig().num_params([])
    37846016
    >>> TransformerConfig(hidden_size=1024, num_attention_heads=16, intermediate_size=4096).num_params([])
    113440768
    """

    family: str = FAMILY

    vocab_size: int = 37000
    """Tokens of the vocabulary that source and target share, section 5.1."""

    hidden_size: int = 512
    """d_model."""

    num_hidden_layers: int = 6
    """N."""

    num_attention_heads: int = 8
    """h; a head is d_k = d_v = d_model / h wide."""

    intermediate_size: int = 2048
    """d_ff."""

    hidden_act: object = "relu"
    attention_probs_dropout_prob: float = 0.0
    type_vocab_size: int = 0
    initializer_range: float | None = None
    layer_norm_eps: float = 1e-6

    max_position_embeddings: int = 512
    """The tokens that texts are cut to. No weight depends on it: a model built without `seq_len` takes any length."""

    attention_bias: bool = False
    """Whether queries, keys, values and the output of attention have biases, as in torch's `TransformerEncoderLayer`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position_offset:
            raise ValueError(f"position_offset must be 0, since positions are computed from 0 on; got {self.position_offset}.")
        if not isinstance(self.attention_bias, bool):
            raise ValueError(f"attention_bias must be True or False; got {self.attention_bias!r:.80}.")

    def encoder(self) -> Encoder:
        """BERT's anatomy with what differs."""
        bert = bert_encoder(self)
        positions = Positions("sinusoidal", self.max_position_embeddings)
        return replace(
            bert,
            embedding=replace(bert.embedding, norm=None, positions=positions, scale=math.sqrt(self.embedding_width)),
            blocks=tuple(replace(block, attention=replace(block.attention, bias=self.attention_bias)) for block in bert.blocks),
            mlm_norm=bert.embedding.norm,
        )


# Name, fields that differ from the defaults, and parameters of the encoder with the paper's vocabulary of 37,000; table 3.
SIZES: tuple = (
    ("transformer-base", {}, 37_846_016),
    (
        "transformer-big",
        {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "hidden_dropout_prob": 0.3},
        113_440_768,
    ),
)
