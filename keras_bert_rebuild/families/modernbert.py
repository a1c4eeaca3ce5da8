"""ModernBERT, and with the same code the encoders of Ettin and mmBERT: rotary positions, local attention, gates, pre-norm blocks.

Reference: Warner et al., 2024 (https://arxiv.org/abs/2412.13663); names as in Hugging Face's files, in both spellings of config.json:
that of transformers 4, `global_attn_every_n_layers` and two thetas, and that of transformers 5, `layer_types` and `rope_parameters`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Attention, Encoder, FeedForward, Norm, Positions, bert_encoder
from keras_bert_rebuild.anatomy.heads import heads_through_transform
from keras_bert_rebuild.checkpoints.table import Module, dense, norm, optional, tied, under
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.rotary_bert import check_rotary
from keras_bert_rebuild.families.skeleton import PYTORCH
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


MODEL_TYPES = {"modernbert": "ModernBert"}

# The defaults of `ModernBertConfig` are those of transformers and of ModernBERT-base.
CLASS_DEFAULTS: dict = {"modernbert": {"classifier_dropout": 0.0}}

CONFIG = (
    *ours.same("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    ("hidden_act", "hidden_activation"),
    ("mlm_act", "classifier_activation"),
    ("hidden_dropout_prob", "embedding_dropout"),
    ("attention_probs_dropout_prob", "attention_dropout"),
    *ours.same("mlp_dropout", "classifier_dropout", "classifier_pooling", "max_position_embeddings", "initializer_range"),
    ("layer_norm_eps", "norm_eps"),
    *ours.same("pad_token_id", "norm_bias", "attention_bias", "mlp_bias", "classifier_bias", "decoder_bias", "local_attention"),
)

# Keys that are read after `in_one_spelling`, and written by `further_keys`.
ALIASES: tuple = ours.same("global_attn_every_n_layers", "layer_types", "global_rope_theta", "local_rope_theta")
FIXED: tuple = (
    ("is_decoder", False),
    ("add_cross_attention", False),
    ("pruned_heads", {}),
    ("tie_word_embeddings", True),
    ("rope_scaling", {}),
)


def in_one_spelling(values: Mapping[str, Any], where: Any) -> dict[str, Any]:
    """The values of a config.json with `layer_types` only if they are not periodic, and thetas instead of `rope_parameters`.

    Args:
        values: the dictionary in the file.
        where: the file, for errors.

    Raises:
        ValueError: rotary positions of another kind, or a head width other than hidden_size / num_attention_heads.
    """
    values = dict(values)
    rotary = values.pop("rope_parameters", None) or {}
    if not isinstance(rotary, dict) or set(rotary) - set(LAYER_TYPES):
        raise ValueError(f"{where}: rope_parameters must have {' and '.join(LAYER_TYPES)}; got {rotary!r:.80}.")
    for kind, key in ((GLOBAL, "global_rope_theta"), (LOCAL, "local_rope_theta")):
        settings = rotary.get(kind) or {}
        if not isinstance(settings, dict):
            raise ValueError(f"{where}: rope_parameters of {kind} must be an object; got {settings!r:.80}.")
        if key in values and values[key] is None and settings.get("rope_theta") is None:
            raise ValueError(f"{where}: {key} must be a number; got null.")
        if set(settings) - {"rope_type", "rope_theta"} or settings.get("rope_type", "default") != "default":
            raise ValueError(
                f"{where}: rope_parameters of {kind} must have rope_type 'default' and a rope_theta; got {settings!r:.80}."
            )
        if settings.get("rope_theta") is not None:
            values[key] = settings["rope_theta"]
    types, period = values.get("layer_types"), values.get("global_attn_every_n_layers")
    if isinstance(types, list) and len(types) <= limit("num_hidden_layers"):
        stated = [period] if type(period) is int and period > 0 else []
        periods = (*stated, ModernBertConfig.global_attn_every_n_layers, *range(1, len(types) + 1))
        period_of_types = next((n for n in periods if types == [LOCAL if i % n else GLOBAL for i in range(len(types))]), None)
        if period_of_types is not None and len(types) == values.get("num_hidden_layers", ModernBertConfig.num_hidden_layers):
            values |= {"layer_types": None, "global_attn_every_n_layers": period_of_types}
    if values.get("head_dim") is not None:
        sizes = [values.get(key, getattr(ModernBertConfig, key)) for key in ("hidden_size", "num_attention_heads")]
        if any(type(size) is not int for size in (*sizes, values["head_dim"])) or sizes[0] != values["head_dim"] * sizes[1]:
            raise ValueError(f"{where}: head_dim must be hidden_size / num_attention_heads; got {values['head_dim']!r:.80}.")
    return values


def further_keys(config: Any) -> dict[str, Any]:
    """Keys of config.json besides `CONFIG`, in both spellings.

    Args:
        config: a `ModernBertConfig`.
    """
    thetas = {GLOBAL: config.global_rope_theta, LOCAL: config.local_rope_theta}
    return {
        "global_attn_every_n_layers": config.global_attn_every_n_layers,
        "global_rope_theta": config.global_rope_theta,
        "local_rope_theta": config.local_rope_theta,
        "layer_types": list(config.types_of_layers),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()},
        "tie_word_embeddings": True,
    }


# All heads read the output of the MLM head's transform.
_TRANSFORM = {
    dense("MLM-Dense", bias=False): "head.dense",
    optional(Module(("MLM-Dense",), ("bias",))): "head.dense",
    norm("MLM-Norm", bias=False): "head.norm",
    optional(Module(("MLM-Norm",), ("beta",))): "head.norm",
}

HUGGINGFACE = PYTORCH.table(
    embeddings=under(
        "model.",
        {
            ours.TOKEN: "embeddings.tok_embeddings",
            ours.EMBEDDING_NORM: "embeddings.norm",
            norm("Encoder-Norm"): "final_norm",
        },
    ),
    block=under(
        "model.layers.{layer}.",
        {
            ours.ATTENTION_NORM: "attn_norm",
            ours.QKV: "attn.Wqkv",
            ours.ATTENTION_OUTPUT: "attn.Wo",
            ours.OUTPUT_NORM: "mlp_norm",
            ours.GATE_AND_INTERMEDIATE: "mlp.Wi",
            ours.OUTPUT: "mlp.Wo",
        },
    ),
    heads={
        "mlm": {**_TRANSFORM, optional(ours.MLM_BIAS): "decoder", tied(ours.TOKEN): "decoder"},
        "classification": {**_TRANSFORM, ours.CLASSIFICATION: "classifier"},
        "token_classification": {**_TRANSFORM, ours.TOKEN_CLASSIFICATION: "classifier"},
        "crf": {ours.CRF: "crf"},
        "question_answering": {**_TRANSFORM, ours.QUESTION_ANSWERING: "classifier"},
        "multiple_choice": {**_TRANSFORM, ours.MULTIPLE_CHOICE: "classifier"},
    },
    prefix="model.",
)

_LARGE = {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "intermediate_size": 2624}

SIZES: tuple = (
    ("modernbert-base", {}, 149_014_272),
    ("modernbert-large", _LARGE, 394_781_696),
)
