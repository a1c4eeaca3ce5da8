"""The config of ModernBERT and its anatomy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.encoder import Attention, Encoder, FeedForward, Norm, Positions, bert_encoder
from keras_bert_rebuild.anatomy.heads import heads_through_transform
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families.rotary_bert import check_rotary
from keras_bert_rebuild.files.limits import is_number, limit

# Whether a layer has full attention or attention within a window.
LAYER_TYPES = GLOBAL, LOCAL = "full_attention", "sliding_attention"


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(BertConfig, families=("modernbert",)):
    """The fields of BERT and of ModernBERT. The defaults are ModernBERT-base.

    `hidden_dropout_prob` is the dropout rate of the embedding after its norm, `attention_probs_dropout_prob` that of attention
    probabilities and outputs, and `mlm_act` the activation of the transform that all heads read.

    Reference: Warner et al., 2024, section 2.1 (https://arxiv.org/abs/2412.13663).

    Example:

    >>> ModernBertConfig().num_params(())
    149014272
    """

    family: str = "modernbert"
    vocab_size: int = 50368
    num_hidden_layers: int = 22
    intermediate_size: int = 1152
    hidden_act: object = "gelu_erf"
    mlm_act: object = "gelu_erf"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    classifier_dropout: float | None = 0.0
    max_position_embeddings: int = 8192
    type_vocab_size: int = 0
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 50283

    mlp_dropout: float = 0.0
    """Dropout rate of the gated values between the two layers of the feed-forward network."""

    norm_bias: bool = False
    """Whether norms have biases."""

    attention_bias: bool = False
    """Whether queries, keys, values and the attention output have biases."""

    mlp_bias: bool = False
    """Whether feed-forward layers have biases."""

    classifier_bias: bool = False
    """Whether the transform that all heads read has a bias."""

    decoder_bias: bool = True
    """Whether the MLM head has a bias for every token of the vocabulary."""

    classifier_pooling: str = "cls"
    """What text heads read: "cls", the first token, or "mean", the mean over the tokens."""

    local_attention: int = 128
    """Width of the windows: a token attends to half of it on either side."""

    global_attn_every_n_layers: int = 3
    """Layers whose index, from 0, is a multiple of this have full attention; the others have windows."""

    layer_types: Sequence[str] | None = None
    """"full_attention" or "sliding_attention" for every layer; None to derive them from `global_attn_every_n_layers`."""

    global_rope_theta: float = 160_000.0
    """Base of the rotary positions of layers with full attention."""

    local_rope_theta: float = 10_000.0
    """Base of the rotary positions of layers with windows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer_types is not None:
            object.__setattr__(self, "layer_types", tuple(self.layer_types))
            if len(self.layer_types) != self.num_hidden_layers or set(self.layer_types) - set(LAYER_TYPES):
                raise ValueError(
                    f"layer_types must be {self.num_hidden_layers} of {', '.join(LAYER_TYPES)}; got {self.layer_types!r:.80}."
                )
        for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias", "decoder_bias"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False; got {getattr(self, name)!r:.80}.")
        for name, minimum in (("local_attention", 1), ("global_attn_every_n_layers", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= limit("max_position_embeddings"):
                raise ValueError(f"{name} must be a whole number of at least {minimum}; got {value!r:.80}.")
        if not is_number(self.mlp_dropout) or not 0 <= self.mlp_dropout < 1:
            raise ValueError(f"mlp_dropout must be a rate in [0, 1); got {self.mlp_dropout!r:.80}.")
        if self.classifier_pooling not in ("cls", "mean"):
            raise ValueError(f"classifier_pooling must be 'cls' or 'mean'; got {self.classifier_pooling!r:.80}.")
        check_rotary(self, ("global_rope_theta", "local_rope_theta"))

    @property
    def types_of_layers(self) -> tuple[str, ...]:
        """For every layer "full_attention" or "sliding_attention"."""
        if self.layer_types is not None:
            return tuple(self.layer_types)
        return tuple(LOCAL if i % self.global_attn_every_n_layers else GLOBAL for i in range(self.num_hidden_layers))

    def encoder(self) -> Encoder:
        """The anatomy: pre-norm blocks with gates, rotary positions and windows, and a final norm.

        Reference: Su et al., 2021 (https://arxiv.org/abs/2104.09864), rotary positions; Beltagy et al., 2020, section 3.1
        (https://arxiv.org/abs/2004.05150), windows; Shazeer, 2020 (https://arxiv.org/abs/2002.05202), gates; Xiong et al., 2020
        (https://arxiv.org/abs/2002.04745), norms.
        """
        bert, norm = bert_encoder(self), Norm(self.layer_norm_eps, bias=self.norm_bias)
        thetas = {GLOBAL: self.global_rope_theta, LOCAL: self.local_rope_theta}
        positions = {kind: Positions("rotary", self.max_position_embeddings, theta=theta) for kind, theta in thetas.items()}
        blocks = tuple(
            replace(
                block,
                attention=Attention(
                    self.num_attention_heads,
                    self.attention_act,
                    self.attention_probs_dropout_prob,
                    bias=self.attention_bias,
                    rotary=positions[kind],
                    window=self.local_attention // 2 if kind == LOCAL else None,
                    output_dropout=self.attention_probs_dropout_prob,
                ),
                feed_forward=FeedForward(
                    self.intermediate_size, self.hidden_act, gated=True, bias=self.mlp_bias, dropout=self.mlp_dropout
                ),
                norm=norm,
                order="pre",
                dropout=0.0,
                first_norm=block.number > 1,
            )
            for block, kind in zip(bert.blocks, self.types_of_layers, strict=True)
        )
        return replace(
            bert,
            embedding=replace(bert.embedding, norm=norm, positions=positions[GLOBAL], normalised_first=True),
            blocks=blocks,
            heads=heads_through_transform(self.classifier_pooling),
            final_norm=norm,
            transform_bias=self.classifier_bias,
            vocabulary_bias=self.decoder_bias,
            output_range=None if self.initializer_range is None else self.initializer_range / math.sqrt(2 * max(1, len(blocks))),
        )
