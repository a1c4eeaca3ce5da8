"""BERT: what its checkpoints and configs call things, and the sizes it was released in.

Reference: Devlin et al., 2019 (https://arxiv.org/abs/1810.04805); names as in google-research/bert and in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import NameTable

# Hugging Face's word for the family, and what the names of its classes begin with.
MODEL_TYPES = {"bert": "Bert"}

# Where the family differs from the defaults of `BertConfig`, and what follows from other fields.
DEFAULTS: dict = {}
DERIVED: dict = {}

# Hugging Face's word for the family to what its config class takes where a config.json is silent and `DEFAULTS` say something else.
UNSAID: dict = {"bert": {"hidden_act": "gelu_erf"}}

# Further keys of config.json that mean the same as one of `CONFIG`.
ALIASES: tuple = ()

# Field of `BertConfig`, key of Hugging Face's config.json.
CONFIG = (
    ("vocab_size", "vocab_size"),
    ("hidden_size", "hidden_size"),
    ("num_hidden_layers", "num_hidden_layers"),
    ("num_attention_heads", "num_attention_heads"),
    ("intermediate_size", "intermediate_size"),
    ("hidden_act", "hidden_act"),
    ("hidden_dropout_prob", "hidden_dropout_prob"),
    ("attention_probs_dropout_prob", "attention_probs_dropout_prob"),
    ("classifier_dropout", "classifier_dropout"),
    ("max_position_embeddings", "max_position_embeddings"),
    ("type_vocab_size", "type_vocab_size"),
    ("initializer_range", "initializer_range"),
    ("layer_norm_eps", "layer_norm_eps"),
    ("pad_token_id", "pad_token_id"),
)

# Keys of config.json whose other values mean another architecture.
FIXED: tuple = (
    ("is_decoder", False),
    ("add_cross_attention", False),
    ("position_embedding_type", "absolute"),
    ("pruned_heads", {}),
)

# Our variable path, their name, layout, and "read" for a second name of what another row writes.
# {block} counts from 1 on our side; {layer} = block − 1 on theirs.
EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "bert.embeddings.word_embeddings.weight",       "same"),
    ("Embedding-Segment/embeddings",  "bert.embeddings.token_type_embeddings.weight", "same"),
    ("Embedding-Position/embeddings", "bert.embeddings.position_embeddings.weight",   "positions"),
    ("Embedding-Norm/gamma",          "bert.embeddings.LayerNorm.weight",             "same"),
    ("Embedding-Norm/beta",           "bert.embeddings.LayerNorm.bias",               "same"),
)  # fmt: skip

BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "bert.encoder.layer.{layer}.attention.self.query.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "bert.encoder.layer.{layer}.attention.self.query.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "bert.encoder.layer.{layer}.attention.self.key.weight",         "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "bert.encoder.layer.{layer}.attention.self.key.bias",           "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "bert.encoder.layer.{layer}.attention.self.value.weight",       "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "bert.encoder.layer.{layer}.attention.self.value.bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "bert.encoder.layer.{layer}.attention.output.dense.weight",     "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "bert.encoder.layer.{layer}.attention.output.dense.bias",       "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "bert.encoder.layer.{layer}.attention.output.LayerNorm.weight", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "bert.encoder.layer.{layer}.attention.output.LayerNorm.bias",   "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "bert.encoder.layer.{layer}.intermediate.dense.weight",         "transposed"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "bert.encoder.layer.{layer}.intermediate.dense.bias",           "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "bert.encoder.layer.{layer}.output.dense.weight",               "transposed"),
    ("Encoder-{block}-FeedForward/output/bias",              "bert.encoder.layer.{layer}.output.dense.bias",                 "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "bert.encoder.layer.{layer}.output.LayerNorm.weight",           "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "bert.encoder.layer.{layer}.output.LayerNorm.bias",             "same"),
)  # fmt: skip

POOLER = (
    ("NSP-Dense/kernel", "bert.pooler.dense.weight", "transposed"),
    ("NSP-Dense/bias",   "bert.pooler.dense.bias",   "same"),
)  # fmt: skip

MLM = (
    ("MLM-Dense/kernel",           "cls.predictions.transform.dense.weight",     "transposed"),
    ("MLM-Dense/bias",             "cls.predictions.transform.dense.bias",       "same"),
    ("MLM-Norm/gamma",             "cls.predictions.transform.LayerNorm.weight", "same"),
    ("MLM-Norm/beta",              "cls.predictions.transform.LayerNorm.bias",   "same"),
    ("MLM-Sim/bias",               "cls.predictions.bias",                       "same"),
    ("MLM-Sim/bias",               "cls.predictions.decoder.bias",               "same", "read"),
    ("Embedding-Token/embeddings", "cls.predictions.decoder.weight",             "same", "read"),
)  # fmt: skip

NSP = (
    ("NSP/kernel", "cls.seq_relationship.weight", "transposed"),
    ("NSP/bias",   "cls.seq_relationship.bias",   "same"),
)  # fmt: skip

CLASSIFICATION = (
    ("Classification/kernel", "classifier.weight", "transposed"),
    ("Classification/bias",   "classifier.bias",   "same"),
)  # fmt: skip

TOKEN_CLASSIFICATION = (
    ("Token-Classification/kernel", "classifier.weight", "transposed"),
    ("Token-Classification/bias",   "classifier.bias",   "same"),
)  # fmt: skip

# Not of Hugging Face: the names that taggers made with pytorch-crf have in their files.
CRF = (
    ("Token-Classification-CRF/next",  "crf.transitions",       "same"),
    ("Token-Classification-CRF/begin", "crf.start_transitions", "same"),
    ("Token-Classification-CRF/end",   "crf.end_transitions",   "same"),
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
        "nsp": POOLER + NSP,
        "classification": POOLER + CLASSIFICATION,
        "token_classification": TOKEN_CLASSIFICATION,
        "crf": CRF,
        "question_answering": QUESTION_ANSWERING,
        "multiple_choice": POOLER + MULTIPLE_CHOICE,
    },
    prefix="bert.",
    ignored=(r"(bert\.)?embeddings\.position_ids",),
    spellings=((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias")),
)

GOOGLE_EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "bert/embeddings/word_embeddings",       "same"),
    ("Embedding-Segment/embeddings",  "bert/embeddings/token_type_embeddings", "same"),
    ("Embedding-Position/embeddings", "bert/embeddings/position_embeddings",   "positions"),
    ("Embedding-Norm/gamma",          "bert/embeddings/LayerNorm/gamma",       "same"),
    ("Embedding-Norm/beta",           "bert/embeddings/LayerNorm/beta",        "same"),
)  # fmt: skip

GOOGLE_BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "bert/encoder/layer_{layer}/attention/self/query/kernel",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "bert/encoder/layer_{layer}/attention/self/query/bias",       "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "bert/encoder/layer_{layer}/attention/self/key/kernel",       "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "bert/encoder/layer_{layer}/attention/self/key/bias",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "bert/encoder/layer_{layer}/attention/self/value/kernel",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "bert/encoder/layer_{layer}/attention/self/value/bias",       "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "bert/encoder/layer_{layer}/attention/output/dense/kernel",   "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "bert/encoder/layer_{layer}/attention/output/dense/bias",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "bert/encoder/layer_{layer}/attention/output/LayerNorm/gamma", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "bert/encoder/layer_{layer}/attention/output/LayerNorm/beta", "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "bert/encoder/layer_{layer}/intermediate/dense/kernel",       "same"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "bert/encoder/layer_{layer}/intermediate/dense/bias",         "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "bert/encoder/layer_{layer}/output/dense/kernel",             "same"),
    ("Encoder-{block}-FeedForward/output/bias",              "bert/encoder/layer_{layer}/output/dense/bias",               "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "bert/encoder/layer_{layer}/output/LayerNorm/gamma",          "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "bert/encoder/layer_{layer}/output/LayerNorm/beta",           "same"),
)  # fmt: skip

GOOGLE_MLM = (
    ("MLM-Dense/kernel", "cls/predictions/transform/dense/kernel",    "same"),
    ("MLM-Dense/bias",   "cls/predictions/transform/dense/bias",      "same"),
    ("MLM-Norm/gamma",   "cls/predictions/transform/LayerNorm/gamma", "same"),
    ("MLM-Norm/beta",    "cls/predictions/transform/LayerNorm/beta",  "same"),
    ("MLM-Sim/bias",     "cls/predictions/output_bias",               "same"),
)  # fmt: skip

GOOGLE_POOLER = (
    ("NSP-Dense/kernel", "bert/pooler/dense/kernel",                  "same"),
    ("NSP-Dense/bias",   "bert/pooler/dense/bias",                    "same"),
)  # fmt: skip

GOOGLE_NSP = (
    ("NSP/kernel",       "cls/seq_relationship/output_weights",       "transposed"),
    ("NSP/bias",         "cls/seq_relationship/output_bias",          "same"),
)  # fmt: skip

GOOGLE = NameTable(
    embeddings=GOOGLE_EMBEDDINGS,
    block=GOOGLE_BLOCK,
    heads={"pooler": GOOGLE_POOLER, "mlm": GOOGLE_MLM, "nsp": GOOGLE_POOLER + GOOGLE_NSP},
    prefix="bert/",
    ignored=(r".*/(adam|lamb)_[mv]", r"global_step", r"beta[12]_power", r"(good_steps|loss_scale)"),
)

# Name of a release, what differs from the defaults, parameters of the encoder with its pooler.
SIZES: tuple = (
    ("bert-base-uncased", {}, 109_482_240),
    ("bert-base-cased", {"vocab_size": 28996}, 108_310_272),
    ("bert-base-chinese", {"vocab_size": 21128}, 102_267_648),
    ("bert-base-multilingual-cased", {"vocab_size": 119547}, 177_853_440),
    (
        "bert-large-uncased",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        335_141_888,
    ),
    (
        "bert-large-cased",
        {"vocab_size": 28996, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        333_579_264,
    ),
)
