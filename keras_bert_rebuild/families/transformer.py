"""The encoder of the Transformer: scaled embeddings, sinusoidal positions, post-norm blocks, ReLU.

Reference: Vaswani et al., 2017, sections 3 and 5.4 (https://arxiv.org/abs/1706.03762).
"""

import math
from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.encoder import Encoder, Positions, bert_encoder
from keras_bert_rebuild.config import BertConfig

FAMILY = "transformer"


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BertConfig, families=(FAMILY,)):
    """The encoder of the Transformer, with `build_model`. The defaults are the paper's base model.

    Token vectors are multiplied by the square root of their width (section 3.4), and sinusoidal positions are added (section 3.5).
    The sum has dropout (section 5.4) and no norm. Dropout, residual and norm of each sub-layer are those of BERT (section 3.1). The
    four projections of attention have no biases (section 3.2.2), the two feed-forward layers have (section 3.3).

    The paper does not specify segments, padding, initializers and epsilon: padding is recognised as in BERT, kernels use Glorot's
    uniform initializer, and epsilon is that of the paper's own code, tensor2tensor. Heads are those of BERT.

    Example:

    >>> TransformerConfig().num_params([])
    37846016
    >>> TransformerConfig(hidden_size=1024, num_attention_heads=16, intermediate_size=4096).num_params([])
    113440768
    """

    family: str = FAMILY

    vocab_size: int = 37000
    """Size of the vocabulary that source and target share, section 5.1."""

    hidden_size: int = 512
    """d_model."""

    num_hidden_layers: int = 6
    """N."""

    num_attention_heads: int = 8
    """h; the width of a head is d_k = d_v = d_model / h."""

    intermediate_size: int = 2048
    """d_ff."""

    hidden_act: object = "relu"
    attention_probs_dropout_prob: float = 0.0
    type_vocab_size: int = 0
    initializer_range: float | None = None
    layer_norm_eps: float = 1e-6

    max_position_embeddings: int = 512
    """Number of tokens that texts are truncated to. No weight depends on it: without `seq_len`, a model takes any length."""

    attention_bias: bool = False
    """Whether the projections of attention have biases, as in torch's `TransformerEncoderLayer`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position_offset:
            raise ValueError(f"position_offset must be 0, since positions are computed from 0; got {self.position_offset}.")
        if not isinstance(self.attention_bias, bool):
            raise ValueError(f"attention_bias must be True or False; got {self.attention_bias!r:.80}.")

    def encoder(self) -> Encoder:
        """The anatomy: BERT's, with the differences."""
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
