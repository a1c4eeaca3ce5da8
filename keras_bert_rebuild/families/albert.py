"""ALBERT, versions 1 and 2: factorised embeddings, all layers share one block, sentence-order instead of next-sentence prediction.

Reference: Lan et al., 2020 (https://arxiv.org/abs/1909.11942); names as in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import tied, under
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, SPELLINGS, shared_heads

MODEL_TYPES = {"albert": "Albert"}

# Version 1 has hidden_act "gelu_erf" and dropout; both are in its config.json.
DEFAULTS: dict = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "num_hidden_groups": 1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}

# The sizes of ALBERT-xxlarge.
CLASS_DEFAULTS: dict = {
    "albert": {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384, "classifier_dropout": 0.1},
}

CONFIG = (
    *((field, key) for field, key in bert.CONFIG if field != "classifier_dropout"),
    *ours.same("embedding_size", "num_hidden_groups"),
    ("classifier_dropout", "classifier_dropout_prob"),
)
FIXED: tuple = (("inner_group_num", 1), ("position_embedding_type", "absolute"))

EMBEDDINGS = {**bert.EMBEDDINGS, ours.MAPPING: "encoder.embedding_hidden_mapping_in"}
BLOCK = {
    ours.QUERY: "attention.query",
    ours.KEY: "attention.key",
    ours.VALUE: "attention.value",
    ours.ATTENTION_OUTPUT: "attention.dense",
    ours.ATTENTION_NORM: "attention.LayerNorm",
    ours.INTERMEDIATE: "ffn",
    ours.OUTPUT: "ffn_output",
    ours.OUTPUT_NORM: "full_layer_layer_norm",
}
POOLED = {ours.POOLER: "albert.pooler"}

HUGGINGFACE = PYTORCH.table(
    embeddings=under("albert.", EMBEDDINGS),
    block=under("albert.encoder.albert_layer_groups.{layer}.albert_layers.0.", BLOCK),
    heads={
        "pooler": POOLED,
        "mlm": {
            ours.MLM_DENSE: "predictions.dense",
            ours.MLM_NORM: "predictions.LayerNorm",
            ours.MLM_BIAS: "predictions",
            tied(ours.MLM_BIAS): "predictions.decoder",
            tied(ours.TOKEN): "predictions.decoder",
        },
        "sop": {**POOLED, ours.SOP: "sop_classifier.classifier"},
        **shared_heads(POOLED),
    },
    prefix="albert.",
    ignored=(r"(albert\.)?embeddings\.position_ids",),
    spellings=SPELLINGS,
)

# Version 2; version 1 has the same counts.
SIZES: tuple = (
    ("albert-base-v2", {}, 11_683_584),
    (
        "albert-large-v2",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        17_683_968,
    ),
    (
        "albert-xlarge-v2",
        {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8192},
        58_724_864,
    ),
    (
        "albert-xxlarge-v2",
        {"hidden_size": 4096, "num_hidden_layers": 12, "num_attention_heads": 64, "intermediate_size": 16384},
        222_595_584,
    ),
)
