"""ELECTRA: BERT's blocks, factorised embeddings, no pooler; a discriminator that detects replaced tokens, and its generator.

Reference: Clark et al., 2020 (https://arxiv.org/abs/2003.10555); names as in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import tied, under
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, SPELLINGS, shared_heads

MODEL_TYPES = {"electra": "Electra"}

# The sizes of ELECTRA-small. The heads of the generator, for classification and for choices have this activation whatever hidden_act is.
DEFAULTS: dict = {
    "embedding_size": 128,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "hidden_act": "gelu_erf",
    "mlm_act": "gelu_erf",
    "pooler_act": "gelu_erf",
    "dropout_before_pooler": True,
}

# Only tables of another width are projected.
DERIVED: dict = {
    "embedding_size": lambda fields: None if fields["embedding_size"] == fields["hidden_size"] else fields["embedding_size"]
}
CLASS_DEFAULTS: dict = {"electra": {}}

# Files always have the width of the tables; `embedding_width` returns it for both values of the field.
ALIASES: tuple = (("embedding_size", "embedding_size"),)
CONFIG = (*bert.CONFIG, ("embedding_width", "embedding_size"))

# The "summary" is the pooler of multiple choice.
FIXED: tuple = (
    *bert.FIXED,
    ("summary_type", "first"),
    ("summary_use_proj", True),
    ("summary_activation", "gelu"),
    ("summary_proj_to_labels", False),
)

HUGGINGFACE = PYTORCH.table(
    embeddings=under("electra.", {**bert.EMBEDDINGS, ours.MAPPING: "embeddings_project"}),
    block=under("electra.", bert.BLOCK),
    heads={
        "mlm": {
            **under("generator_predictions.", {ours.MLM_DENSE: "dense", ours.MLM_NORM: "LayerNorm"}),
            ours.MLM_BIAS: "generator_lm_head",
            tied(ours.TOKEN): "generator_lm_head",
        },
        "rtd": under("discriminator_predictions.", {ours.RTD_DENSE: "dense", ours.RTD: "dense_prediction"}),
        **shared_heads({ours.POOLER: "sequence_summary.summary"}),
        "classification": {ours.POOLER: "classifier.dense", ours.CLASSIFICATION: "classifier.out_proj"},
    },
    prefix="electra.",
    ignored=(r"(electra\.)?embeddings\.position_ids",),
    spellings=SPELLINGS,
)

_BASE = {"embedding_size": None, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
_LARGE = {**_BASE, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}

# The generators of base and large have the blocks' width of small, and the tables of their discriminators.
SIZES: tuple = (
    ("electra-small-discriminator", {}, 13_483_008),
    ("electra-base-generator", {"embedding_size": 768}, 33_511_168),
    ("electra-base-discriminator", _BASE, 108_891_648),
    ("electra-large-generator", {"embedding_size": 1024, "num_hidden_layers": 24}, 50_999_552),
    ("electra-large-discriminator", _LARGE, 334_092_288),
)
