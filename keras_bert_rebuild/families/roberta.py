"""RoBERTa and XLM-RoBERTa: BERT without next sentences, whose positions begin behind the id of padding.

Reference: Liu et al., 2019 (https://arxiv.org/abs/1907.11692); Conneau et al., 2020 (https://arxiv.org/abs/1911.02116); names as in
Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import NameTable
from keras_bert_rebuild.families import bert

MODEL_TYPES = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}

DEFAULTS: dict = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "mlm_act": "gelu_erf",  # whatever hidden_act says
}

# The config classes have BERT's sizes and epsilon, which no released model has.
_LIKE_BERT = {"hidden_act": "gelu_erf", "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
UNSAID: dict = {
    "roberta": _LIKE_BERT,
    "xlm-roberta": {**_LIKE_BERT, "vocab_size": 30522},
    "camembert": {**_LIKE_BERT, "vocab_size": 30522},
}
ALIASES: tuple = ()
DERIVED: dict = {"position_offset": lambda fields: fields["pad_token_id"] + 1}

CONFIG = bert.CONFIG
FIXED = bert.FIXED

EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "roberta.embeddings.word_embeddings.weight",       "same"),
    ("Embedding-Segment/embeddings",  "roberta.embeddings.token_type_embeddings.weight", "same"),
    ("Embedding-Position/embeddings", "roberta.embeddings.position_embeddings.weight",   "positions"),
    ("Embedding-Norm/gamma",          "roberta.embeddings.LayerNorm.weight",             "same"),
    ("Embedding-Norm/beta",           "roberta.embeddings.LayerNorm.bias",               "same"),
)  # fmt: skip

BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "roberta.encoder.layer.{layer}.attention.self.query.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "roberta.encoder.layer.{layer}.attention.self.query.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "roberta.encoder.layer.{layer}.attention.self.key.weight",         "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "roberta.encoder.layer.{layer}.attention.self.key.bias",           "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "roberta.encoder.layer.{layer}.attention.self.value.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "roberta.encoder.layer.{layer}.attention.self.value.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "roberta.encoder.layer.{layer}.attention.output.dense.weight",     "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "roberta.encoder.layer.{layer}.attention.output.dense.bias",       "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "roberta.encoder.layer.{layer}.attention.output.LayerNorm.weight", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "roberta.encoder.layer.{layer}.attention.output.LayerNorm.bias",   "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "roberta.encoder.layer.{layer}.intermediate.dense.weight",         "transposed"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "roberta.encoder.layer.{layer}.intermediate.dense.bias",           "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "roberta.encoder.layer.{layer}.output.dense.weight",               "transposed"),
    ("Encoder-{block}-FeedForward/output/bias",              "roberta.encoder.layer.{layer}.output.dense.bias",                 "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "roberta.encoder.layer.{layer}.output.LayerNorm.weight",           "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "roberta.encoder.layer.{layer}.output.LayerNorm.bias",             "same"),
)  # fmt: skip

POOLER = (
    ("NSP-Dense/kernel", "roberta.pooler.dense.weight", "transposed"),
    ("NSP-Dense/bias",   "roberta.pooler.dense.bias",   "same"),
)  # fmt: skip

MLM = (
    ("MLM-Dense/kernel",           "lm_head.dense.weight",      "transposed"),
    ("MLM-Dense/bias",             "lm_head.dense.bias",        "same"),
    ("MLM-Norm/gamma",             "lm_head.layer_norm.weight", "same"),
    ("MLM-Norm/beta",              "lm_head.layer_norm.bias",   "same"),
    ("MLM-Sim/bias",               "lm_head.bias",              "same"),
    ("MLM-Sim/bias",               "lm_head.decoder.bias",      "same", "read"),
    ("Embedding-Token/embeddings", "lm_head.decoder.weight",    "same", "read"),
)  # fmt: skip

CLASSIFICATION = (
    ("NSP-Dense/kernel",      "classifier.dense.weight",    "transposed"),
    ("NSP-Dense/bias",        "classifier.dense.bias",      "same"),
    ("Classification/kernel", "classifier.out_proj.weight", "transposed"),
    ("Classification/bias",   "classifier.out_proj.bias",   "same"),
)  # fmt: skip

TOKEN_CLASSIFICATION = (
    ("Token-Classification/kernel", "classifier.weight", "transposed"),
    ("Token-Classification/bias",   "classifier.bias",   "same"),
)  # fmt: skip

QUESTION_ANSWERING = (
    ("Question-Answering/kernel", "qa_outputs.weight", "transposed"),
    ("Question-Answering/bias",   "qa_outputs.bias",   "same"),
)  # fmt: skip

# Not the two layers of a classification, but BERT's pooler and one.
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
        "classification": CLASSIFICATION,
        "token_classification": TOKEN_CLASSIFICATION,
        "crf": bert.CRF,
        "question_answering": QUESTION_ANSWERING,
        "multiple_choice": POOLER + MULTIPLE_CHOICE,
    },
    prefix="roberta.",
    ignored=(r"(roberta\.)?embeddings\.(position_ids|token_type_ids)",),
    spellings=bert.HUGGINGFACE.spellings,
)

# The position table has 514 rows, of which the first two stand for no position.
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
