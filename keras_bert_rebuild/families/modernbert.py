"""ModernBERT, and with the same code the encoders of Ettin and mmBERT: rotary positions, local attention, gates, pre-norm blocks.

Reference: Warner et al., 2024 (https://arxiv.org/abs/2412.13663); names as in Hugging Face's files, in both spellings of config.json:
that of transformers 4, `global_attn_every_n_layers` and two thetas, and that of transformers 5, `layer_types` and `rope_parameters`.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert_rebuild.checkpoints.table import Module, dense, norm, optional, tied, under
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.modernbert_config import GLOBAL, LAYER_TYPES, LOCAL, ModernBertConfig
from keras_bert_rebuild.families.skeleton import PYTORCH
from keras_bert_rebuild.files.limits import limit

MODEL_TYPES = {"modernbert": "ModernBert"}

# The defaults of `ModernBertConfig` are those of transformers and of ModernBERT-base.
DEFAULTS: dict = {}
DERIVED: dict = {}
CLASS_DEFAULTS: dict = {"modernbert": {"classifier_dropout": 0.0}}

CONFIG = (
    ("vocab_size", "vocab_size"),
    ("hidden_size", "hidden_size"),
    ("num_hidden_layers", "num_hidden_layers"),
    ("num_attention_heads", "num_attention_heads"),
    ("intermediate_size", "intermediate_size"),
    ("hidden_act", "hidden_activation"),
    ("mlm_act", "classifier_activation"),
    ("hidden_dropout_prob", "embedding_dropout"),
    ("attention_probs_dropout_prob", "attention_dropout"),
    ("mlp_dropout", "mlp_dropout"),
    ("classifier_dropout", "classifier_dropout"),
    ("classifier_pooling", "classifier_pooling"),
    ("max_position_embeddings", "max_position_embeddings"),
    ("initializer_range", "initializer_range"),
    ("layer_norm_eps", "norm_eps"),
    ("pad_token_id", "pad_token_id"),
    ("norm_bias", "norm_bias"),
    ("attention_bias", "attention_bias"),
    ("mlp_bias", "mlp_bias"),
    ("classifier_bias", "classifier_bias"),
    ("decoder_bias", "decoder_bias"),
    ("local_attention", "local_attention"),
)

# Keys that are read after `in_one_spelling`, and written by `further_keys`.
_SPELLED = ("global_attn_every_n_layers", "layer_types", "global_rope_theta", "local_rope_theta")
ALIASES: tuple = tuple((key, key) for key in _SPELLED)
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
        given = rotary.get(kind) or {}
        if not isinstance(given, dict):
            raise ValueError(f"{where}: rope_parameters of {kind} must be an object; got {given!r:.80}.")
        if key in values and values[key] is None and given.get("rope_theta") is None:
            raise ValueError(f"{where}: {key} must be a number; got null.")
        if set(given) - {"rope_type", "rope_theta"} or given.get("rope_type", "default") != "default":
            raise ValueError(
                f"{where}: rope_parameters of {kind} must have rope_type 'default' and a rope_theta; got {given!r:.80}."
            )
        if given.get("rope_theta") is not None:
            values[key] = given["rope_theta"]
    types, period = values.get("layer_types"), values.get("global_attn_every_n_layers")
    if isinstance(types, list) and len(types) <= limit("num_hidden_layers"):
        known = [period] if type(period) is int and period > 0 else []
        periods = (*known, ModernBertConfig.global_attn_every_n_layers, *range(1, len(types) + 1))
        found = next((n for n in periods if types == [LOCAL if i % n else GLOBAL for i in range(len(types))]), None)
        if found is not None and len(types) == values.get("num_hidden_layers", ModernBertConfig.num_hidden_layers):
            values |= {"layer_types": None, "global_attn_every_n_layers": found}
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
