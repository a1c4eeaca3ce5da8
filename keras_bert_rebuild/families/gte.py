"""GTE, and Snowflake's Arctic Embed 2 with the same code: BERT with rotary positions, gated gelu layers and few biases.

Reference: Zhang et al., 2024, section 3 (https://arxiv.org/abs/2407.19669). Both spellings of its files are read: that of its own code,
`model_type` "new", and that of transformers, "gte", which is also written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Encoder
from keras_bert_rebuild.checkpoints.table import fused, norm, tied, under
from keras_bert_rebuild.families import bert, rotary_bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, shared_heads

MODEL_TYPES = {"gte": "Gte", "new": "New"}


@dataclass(frozen=True, kw_only=True)
class GteConfig(rotary_bert.RotaryBertConfig, families=tuple(MODEL_TYPES)):
    """The fields of BERT and of rotary positions. The defaults are the sizes of gte-multilingual-base.

    Example:

    >>> GteConfig().num_params(())
    305368320
    """

    family: str = "gte"
    vocab_size: int = 250048
    hidden_act: object = "gelu_erf"
    mlm_act: object = "gelu_erf"
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 8192
    type_vocab_size: int = 1
    pad_token_id: int = 1
    rope_theta: float = 160_000.0

    def __post_init__(self) -> None:
        if self.family == "new":
            object.__setattr__(self, "family", "gte")
        super().__post_init__()

    def encoder(self) -> Encoder:
        return rotary_bert.rotary_encoder(self, biased=True, inner_dropout=self.hidden_dropout_prob)


# The defaults of `GteConfig` are those of transformers; GTE's own code has others.
CLASS_DEFAULTS: dict = {"gte": {}, "new": {"vocab_size": 30528, "max_position_embeddings": 2048, "pad_token_id": 0}}
CONFIG = bert.CONFIG

# The dense layer of the MLM head has the activation of the blocks in GTE's own code, and always erf-gelu in transformers.
ALIASES: tuple = (*rotary_bert.ALIASES, ("mlm_act", "mlm_act"))
FIXED: tuple = (
    ("is_decoder", False),
    ("add_cross_attention", False),
    ("pruned_heads", {}),
    ("tie_word_embeddings", True),
    ("position_embedding_type", "rope"),
    ("layer_norm_type", "layer_norm"),
    ("logn_attention_scale", False),
    ("logn_attention_clip1", False),
)


def in_one_spelling(values: Mapping[str, Any], where: Any) -> dict[str, Any]:
    """The values of a config.json of either spelling in the spelling of transformers.

    Args:
        values: the dictionary in the file.
        where: the file, for errors.

    Raises:
        ValueError: see `with_rotary_values`.
    """
    own = values.get("model_type") == "new"
    activation = {"mlm_act": values.get("hidden_act")} if own else {}
    values = {key: value for key, value in values.items() if key != "mlm_act"} | activation
    theta = 10_000.0 if own else GteConfig.rope_theta
    return rotary_bert.with_rotary_values(values, GteConfig, where, theta=theta, kinds=("linear", "ntk"))


further_keys = rotary_bert.rotary_keys

POOLED = {ours.POOLER: "gte.pooler.dense"}

# Separate arrays for queries, keys and values, and for both halves of the gated layer, occur in files of GTE's code with `pack_qkv`
# false, and under transformers' names in memory.
_SEPARATE = {
    tied(ours.QUERY): "attention.q_proj",
    tied(ours.KEY): "attention.k_proj",
    tied(ours.VALUE): "attention.v_proj",
    tied(ours.INTERMEDIATE): "mlp.up_proj",
    tied(ours.GATE): "mlp.gate_proj",
}

HUGGINGFACE = PYTORCH.table(
    embeddings=under(
        "gte.embeddings.",
        {ours.TOKEN: "word_embeddings", ours.SEGMENT: "token_type_embeddings", ours.EMBEDDING_NORM: "LayerNorm"},
    ),
    block=under(
        "gte.encoder.layer.{layer}.",
        {
            ours.QKV: "attention.qkv_proj",
            ours.ATTENTION_OUTPUT: "attention.o_proj",
            ours.ATTENTION_NORM: "attn_ln",
            fused(ours.INTERMEDIATE, ours.GATE): "mlp.up_gate_proj",
            ours.OUTPUT: "mlp.down_proj",
            ours.OUTPUT_NORM: "mlp_ln",
            **_SEPARATE,
        },
    ),
    heads={
        "mlm": {
            ours.MLM_DENSE: "lm_head.dense",
            norm("MLM-Norm"): "lm_head.norm",
            ours.MLM_BIAS: "lm_head.decoder",
            tied(ours.TOKEN): "lm_head.decoder",
        },
        **shared_heads(POOLED),
    },
    prefix="gte.",
    ignored=(r"(gte\.)?(embeddings\.)?(position_ids|rotary_emb\..*)",),
    spellings=(
        (r"^new\.", "gte."),
        (r"^(gte\.)?layers\.", r"\1encoder.layer."),
        (r"\.self_attn\.", ".attention."),
        (r"\.post_attention_layernorm\.", ".attn_ln."),
        (r"\.post_mlp_layernorm\.", ".mlp_ln."),
        (r"^lm_head\.layer_norm\.", "lm_head.norm."),
    ),
)

# The rotary positions of both have type "ntk", with factors 8 and 2; parameters of the encoder, which has no pooler.
SIZES: tuple = (
    ("gte-multilingual-base", {"rope_factor": 8 ** (2 / 64)}, 305_368_320),
    (
        "gte-base-en-v1.5",
        {"vocab_size": 30528, "type_vocab_size": 0, "pad_token_id": 0, "rope_theta": 1e6, "rope_factor": 2 ** (2 / 64)},
        136_776_192,
    ),
)
