"""Nomic BERT: BERT with rotary positions, SwiGLU and no biases except in norms and heads.

Reference: Nussbaum et al., 2024, section 3 (https://arxiv.org/abs/2402.01613). Both spellings of its config are read: that of its own
code (`n_embd` and so on) and that of transformers, which is also written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Encoder
from keras_bert_rebuild.checkpoints.table import norm, optional, tied, under
from keras_bert_rebuild.families import bert, rotary_bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, shared_heads

MODEL_TYPES = {"nomic_bert": "NomicBert"}


@dataclass(frozen=True, kw_only=True)
class NomicBertConfig(rotary_bert.RotaryBertConfig, families=tuple(MODEL_TYPES)):
    """The fields of BERT and of rotary positions. The defaults are those of transformers.

    Example:

    >>> NomicBertConfig().num_params(())
    136731648
    """

    family: str = "nomic_bert"
    vocab_size: int = 30528
    hidden_act: object = "silu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 2048
    rope_theta: float = 1000.0

    def encoder(self) -> Encoder:
        return rotary_bert.rotary_encoder(self, biased=False, inner_dropout=0.0)


# The defaults are those of `NomicBertConfig`.
CLASS_DEFAULTS: dict = {"nomic_bert": {}}
CONFIG = bert.CONFIG
ALIASES = rotary_bert.ALIASES
FIXED: tuple = (
    ("is_decoder", False),
    ("add_cross_attention", False),
    ("pruned_heads", {}),
    ("tie_word_embeddings", True),
    ("causal", False),
    ("prenorm", False),
    ("parallel_block", False),
    ("use_rms_norm", False),
    ("qkv_proj_bias", False),
    ("mlp_fc1_bias", False),
    ("mlp_fc2_bias", False),
    ("rotary_emb_fraction", 1.0),
    ("rotary_emb_interleaved", False),
    ("rotary_emb_scale_base", None),
    ("scale_attn_weights", True),
    ("scale_attn_by_inverse_layer_idx", False),
)

# Keys of Nomic's own code to those of transformers.
_SPELLED = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "attn_pdrop": "attention_probs_dropout_prob",
    "resid_pdrop": "hidden_dropout_prob",
    "rotary_emb_base": "rope_theta",
}

# Without these, a file of that code would describe another or an unknown architecture.
_NEEDED = ("vocab_size", *_SPELLED, "activation_function", "rotary_emb_fraction", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")

# Activations of its gates.
_GATES = {"swiglu": "silu", "geglu": "gelu", "glu": "sigmoid"}


def in_one_spelling(values: Mapping[str, Any], where: Any) -> dict[str, Any]:
    """The values of a config.json of either spelling in the spelling of transformers.

    A `rotary_scaling_factor` has no effect up to `max_trained_positions`, so that is the maximum length of the model that is read.

    Args:
        values: the dictionary in the file.
        where: the file, for errors.

    Raises:
        ValueError: a file of Nomic's own code lacks a key, is inconsistent or has no gate; also see `with_rotary_values`.
    """
    if _SPELLED.keys() & values.keys():
        values = _in_transformers_spelling(dict(values), where)
    return rotary_bert.with_rotary_values(values, NomicBertConfig, where, theta=NomicBertConfig.rope_theta)


def _in_transformers_spelling(values, where):
    missing = [key for key in _NEEDED if key not in values]
    if missing:
        raise ValueError(f"{where} must have all keys of Nomic's own code if it has one of them; {', '.join(missing)} is missing.")
    other = [key for key, ours in _SPELLED.items() if values.get(ours) not in (None, values[key])]
    if other:
        raise ValueError(
            f"{where}: {other[0]} must be {_SPELLED[other[0]]}={values[_SPELLED[other[0]]]!r:.40}; got {values[other[0]]!r:.40}."
        )
    if values.get("embd_pdrop", values["resid_pdrop"]) != values["resid_pdrop"]:
        raise ValueError(
            f"{where}: embd_pdrop must be resid_pdrop={values['resid_pdrop']!r:.40}; got {values['embd_pdrop']!r:.40}."
        )
    activation = values["activation_function"]
    if not isinstance(activation, str) or activation not in _GATES:
        raise ValueError(f"{where}: activation_function must be one of {', '.join(_GATES)}; got {activation!r:.80}.")
    values |= {ours: values.pop(key) for key, ours in _SPELLED.items()} | {"hidden_act": _GATES[activation]}
    width, multiple = values["hidden_size"], values.get("pad_vocab_size_multiple")
    if values["intermediate_size"] is None and type(width) is int:
        values["intermediate_size"] = 4 * width
    if all(type(each) is int and each > 0 for each in (values["vocab_size"], multiple)):
        values["vocab_size"] += -values["vocab_size"] % multiple
    trained = values.get("max_trained_positions", 2048)
    if values.get("rotary_scaling_factor") and all(type(each) is int for each in (trained, values["max_position_embeddings"])):
        values["max_position_embeddings"] = min(trained, values["max_position_embeddings"])
    return values


def problem_of(values: Mapping[str, Any]) -> str | None:
    """Why a config.json describes another architecture, if no table covers that; None if it does not.

    Args:
        values: the dictionary in the file, in the spelling of transformers.
    """
    every = values.get("moe_every_n_layers")
    if every is None or (isinstance(every, int) and every <= 0):
        return None
    return f"moe_every_n_layers must be 0, since mixtures of experts are not supported; got {every!r:.80}"


further_keys = rotary_bert.rotary_keys

POOLED = {ours.POOLER: "nomic_bert.pooler.dense"}
_MLM = "cls.predictions"

HUGGINGFACE = PYTORCH.table(
    embeddings=under(
        "nomic_bert.",
        {
            ours.TOKEN: "embeddings.word_embeddings",
            ours.SEGMENT: "embeddings.token_type_embeddings",
            ours.EMBEDDING_NORM: "emb_ln",
        },
    ),
    block=under(
        "nomic_bert.encoder.layers.{layer}.",
        {
            ours.QKV: "attn.Wqkv",
            ours.ATTENTION_OUTPUT: "attn.out_proj",
            ours.ATTENTION_NORM: "norm1",
            ours.INTERMEDIATE: "mlp.fc11",
            ours.GATE: "mlp.fc12",
            ours.OUTPUT: "mlp.fc2",
            ours.OUTPUT_NORM: "norm2",
            # Names of transformers in memory.
            tied(ours.QUERY): "attn.q_proj",
            tied(ours.KEY): "attn.k_proj",
            tied(ours.VALUE): "attn.v_proj",
        },
    ),
    heads={
        "mlm": {
            ours.MLM_DENSE: f"{_MLM}.transform.dense",
            norm("MLM-Norm"): f"{_MLM}.transform.layer_norm",
            # Nomic's own code stores it only as the bias of the decoder.
            optional(ours.MLM_BIAS): _MLM,
            tied(ours.MLM_BIAS): f"{_MLM}.decoder",
            tied(ours.TOKEN): f"{_MLM}.decoder",
        },
        **shared_heads(POOLED),
    },
    prefix="nomic_bert.",
    ignored=(r"(nomic_bert\.)?(embeddings\.)?(position_ids|token_type_ids)", r".*\.rotary_emb\..*"),
    spellings=(
        (r"^bert\.", "nomic_bert."),
        (r"^(nomic_bert\.)?layers\.", r"\1encoder.layers."),
        (r"embeddings\.LayerNorm\.", "emb_ln."),
        (r"\.self_attn\.o_proj\.", ".attn.out_proj."),
        (r"\.self_attn\.", ".attn."),
        (r"\.mlp\.up_proj\.", ".mlp.fc11."),
        (r"\.mlp\.gate_proj\.", ".mlp.fc12."),
        (r"\.mlp\.down_proj\.", ".mlp.fc2."),
        (r"\.post_attention_layernorm\.", ".norm1."),
        (r"\.post_mlp_layernorm\.", ".norm2."),
    ),
)

# Parameters of the encoder, which has no pooler.
SIZES: tuple = (("nomic-bert-2048", {}, 136_731_648), ("nomic-embed-text-v1.5", {"max_position_embeddings": 8192}, 136_731_648))
