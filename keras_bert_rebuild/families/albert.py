"""ALBERT, versions 1 and 2: narrow embedding tables, one block used by all layers, sentence order instead of next sentences.

Reference: Lan et al., 2020 (https://arxiv.org/abs/1909.11942); names as in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import NameTable
from keras_bert_rebuild.families import bert

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
DERIVED: dict = {}

# Those of ALBERT-xxlarge.
UNSAID: dict = {
    "albert": {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384, "classifier_dropout": 0.1},
}
ALIASES: tuple = ()

CONFIG = (
    *((ours, theirs) for ours, theirs in bert.CONFIG if ours != "classifier_dropout"),
    ("embedding_size", "embedding_size"),
    ("num_hidden_groups", "num_hidden_groups"),
    ("classifier_dropout", "classifier_dropout_prob"),
)
FIXED: tuple = (("inner_group_num", 1), ("position_embedding_type", "absolute"), ("pruned_heads", {}))

EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "albert.embeddings.word_embeddings.weight",          "same"),
    ("Embedding-Segment/embeddings",  "albert.embeddings.token_type_embeddings.weight",    "same"),
    ("Embedding-Position/embeddings", "albert.embeddings.position_embeddings.weight",      "positions"),
    ("Embedding-Norm/gamma",          "albert.embeddings.LayerNorm.weight",                "same"),
    ("Embedding-Norm/beta",           "albert.embeddings.LayerNorm.bias",                  "same"),
    ("Embedding-Mapping/kernel",      "albert.encoder.embedding_hidden_mapping_in.weight", "transposed"),
    ("Embedding-Mapping/bias",        "albert.encoder.embedding_hidden_mapping_in.bias",   "same"),
)  # fmt: skip

BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.query.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.query.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.key.weight",         "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.key.bias",           "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.value.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.value.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.dense.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.dense.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.LayerNorm.weight",   "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.LayerNorm.bias",     "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.ffn.weight",                   "transposed"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.ffn.bias",                     "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.ffn_output.weight",            "transposed"),
    ("Encoder-{block}-FeedForward/output/bias",              "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.ffn_output.bias",              "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.full_layer_layer_norm.weight", "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.full_layer_layer_norm.bias",   "same"),
)  # fmt: skip

POOLER = (
    ("NSP-Dense/kernel", "albert.pooler.weight", "transposed"),
    ("NSP-Dense/bias",   "albert.pooler.bias",   "same"),
)  # fmt: skip

MLM = (
    ("MLM-Dense/kernel",           "predictions.dense.weight",     "transposed"),
    ("MLM-Dense/bias",             "predictions.dense.bias",       "same"),
    ("MLM-Norm/gamma",             "predictions.LayerNorm.weight", "same"),
    ("MLM-Norm/beta",              "predictions.LayerNorm.bias",   "same"),
    ("MLM-Sim/bias",               "predictions.bias",             "same"),
    ("MLM-Sim/bias",               "predictions.decoder.bias",     "same", "read"),
    ("Embedding-Token/embeddings", "predictions.decoder.weight",   "same", "read"),
)  # fmt: skip

SOP = (
    ("SOP/kernel", "sop_classifier.classifier.weight", "transposed"),
    ("SOP/bias",   "sop_classifier.classifier.bias",   "same"),
)  # fmt: skip

CLASSIFICATION = (
    ("Classification/kernel", "classifier.weight", "transposed"),
    ("Classification/bias",   "classifier.bias",   "same"),
)  # fmt: skip

TOKEN_CLASSIFICATION = (
    ("Token-Classification/kernel", "classifier.weight", "transposed"),
    ("Token-Classification/bias",   "classifier.bias",   "same"),
)  # fmt: skip

QUESTION_ANSWERING = (
    ("Question-Answering/kernel", "qa_outputs.weight", "transposed"),
    ("Question-Answering/bias",   "qa_outputs.bias",   "same"),
)  # fmt: skip

MULTIPLE_CHOICE = (
    ("Multiple-Choice/kernel", "classifier.weight", "transposed"),
    ("Multiple-Choice/bias",   "classifier.bias",   "same"),
)  # fmt: skip

HUGGINGFACE = NameTable(
    embeddings=EMBEDDINGS,
    block=BLOCK,
    heads={
        "pooler": POOLER,
        "mlm": MLM,
        "sop": POOLER + SOP,
        "classification": POOLER + CLASSIFICATION,
        "token_classification": TOKEN_CLASSIFICATION,
        "crf": bert.CRF,
        "question_answering": QUESTION_ANSWERING,
        "multiple_choice": POOLER + MULTIPLE_CHOICE,
    },
    prefix="albert.",
    ignored=(r"(albert\.)?embeddings\.position_ids",),
    spellings=bert.HUGGINGFACE.spellings,
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
