"""RoBERTa and XLM-RoBERTa: BERT without next-sentence prediction, with positions that start after the padding id.

Reference: Liu et al., 2019 (https://arxiv.org/abs/1907.11692); Conneau et al., 2020 (https://arxiv.org/abs/1911.02116); names as in
Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import tied, under
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, SPELLINGS, shared_heads

MODEL_TYPES = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}

DEFAULTS: dict = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "mlm_act": "gelu_erf",  # whatever hidden_act is
    "dropout_before_pooler": True,
}

# The config classes default to BERT's sizes and epsilon, which no released model has.
_LIKE_BERT = {"hidden_act": "gelu_erf", "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
CLASS_DEFAULTS: dict = {
    "roberta": _LIKE_BERT,
    "xlm-roberta": {**_LIKE_BERT, "vocab_size": 30522},
    "camembert": {**_LIKE_BERT, "vocab_size": 30522},
}
DERIVED: dict = {"position_offset": lambda fields: fields["pad_token_id"] + 1}

CONFIG = bert.CONFIG
FIXED = bert.FIXED

POOLED = under("roberta.", bert.POOLED)

HUGGINGFACE = PYTORCH.table(
    embeddings=under("roberta.", bert.EMBEDDINGS),
    block=under("roberta.", bert.BLOCK),
    heads={
        "pooler": POOLED,
        "mlm": {
            ours.MLM_DENSE: "lm_head.dense",
            ours.MLM_NORM: "lm_head.layer_norm",
            ours.MLM_BIAS: "lm_head",
            tied(ours.MLM_BIAS): "lm_head.decoder",
            tied(ours.TOKEN): "lm_head.decoder",
        },
        **shared_heads(POOLED),
        # A head of two layers; multiple choice has BERT's pooler and one layer.
        "classification": {ours.POOLER: "classifier.dense", ours.CLASSIFICATION: "classifier.out_proj"},
    },
    prefix="roberta.",
    ignored=(r"(roberta\.)?embeddings\.(position_ids|token_type_ids)",),
    spellings=SPELLINGS,
)

# The position table has 514 rows, of which the first two are not positions.
SIZES: tuple = (
    ("roberta-base", {}, 124_645_632),
    (
        "roberta-large",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        355_359_744,
    ),
    ("xlm-roberta-base", {"vocab_size": 250002}, 278_043_648),
    (
        "xlm-roberta-large",
        {
            "vocab_size": 250002,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
        559_890_432,
    ),
)
