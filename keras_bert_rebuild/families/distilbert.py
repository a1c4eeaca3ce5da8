"""DistilBERT: six blocks, no segments, no pooler.

Reference: Sanh et al., 2019 (https://arxiv.org/abs/1910.01108); names as in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import NameTable
from keras_bert_rebuild.families import bert

MODEL_TYPES = {"distilbert": "DistilBert"}

DEFAULTS: dict = {"num_hidden_layers": 6, "type_vocab_size": 0, "pooler_act": "relu"}
DERIVED: dict = {}
UNSAID: dict = {"distilbert": {"hidden_act": "gelu_erf", "classifier_dropout": 0.2}}

CONFIG = (
    ("vocab_size", "vocab_size"),
    ("hidden_size", "dim"),
    ("num_hidden_layers", "n_layers"),
    ("num_attention_heads", "n_heads"),
    ("intermediate_size", "hidden_dim"),
    ("hidden_act", "activation"),
    ("hidden_dropout_prob", "dropout"),
    ("attention_probs_dropout_prob", "attention_dropout"),
    ("classifier_dropout", "seq_classif_dropout"),
    ("max_position_embeddings", "max_position_embeddings"),
    ("initializer_range", "initializer_range"),
    ("pad_token_id", "pad_token_id"),
)
ALIASES: tuple = (
    ("hidden_size", "hidden_size"),
    ("num_hidden_layers", "num_hidden_layers"),
    ("num_attention_heads", "num_attention_heads"),
)
FIXED: tuple = (("pruned_heads", {}),)

EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "distilbert.embeddings.word_embeddings.weight",     "same"),
    ("Embedding-Position/embeddings", "distilbert.embeddings.position_embeddings.weight", "positions"),
    ("Embedding-Norm/gamma",          "distilbert.embeddings.LayerNorm.weight",           "same"),
    ("Embedding-Norm/beta",           "distilbert.embeddings.LayerNorm.bias",             "same"),
)  # fmt: skip

BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "distilbert.transformer.layer.{layer}.attention.q_lin.weight",   "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "distilbert.transformer.layer.{layer}.attention.q_lin.bias",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "distilbert.transformer.layer.{layer}.attention.k_lin.weight",   "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "distilbert.transformer.layer.{layer}.attention.k_lin.bias",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "distilbert.transformer.layer.{layer}.attention.v_lin.weight",   "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "distilbert.transformer.layer.{layer}.attention.v_lin.bias",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "distilbert.transformer.layer.{layer}.attention.out_lin.weight", "transposed"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "distilbert.transformer.layer.{layer}.attention.out_lin.bias",   "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "distilbert.transformer.layer.{layer}.sa_layer_norm.weight",     "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "distilbert.transformer.layer.{layer}.sa_layer_norm.bias",       "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "distilbert.transformer.layer.{layer}.ffn.lin1.weight",          "transposed"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "distilbert.transformer.layer.{layer}.ffn.lin1.bias",            "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "distilbert.transformer.layer.{layer}.ffn.lin2.weight",          "transposed"),
    ("Encoder-{block}-FeedForward/output/bias",              "distilbert.transformer.layer.{layer}.ffn.lin2.bias",            "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "distilbert.transformer.layer.{layer}.output_layer_norm.weight", "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "distilbert.transformer.layer.{layer}.output_layer_norm.bias",   "same"),
)  # fmt: skip

MLM = (
    ("MLM-Dense/kernel",           "vocab_transform.weight",  "transposed"),
    ("MLM-Dense/bias",             "vocab_transform.bias",    "same"),
    ("MLM-Norm/gamma",             "vocab_layer_norm.weight", "same"),
    ("MLM-Norm/beta",              "vocab_layer_norm.bias",   "same"),
    ("MLM-Sim/bias",               "vocab_projector.bias",    "same"),
    ("Embedding-Token/embeddings", "vocab_projector.weight",  "same", "read"),
)  # fmt: skip

CLASSIFICATION = (
    ("NSP-Dense/kernel",      "pre_classifier.weight", "transposed"),
    ("NSP-Dense/bias",        "pre_classifier.bias",   "same"),
    ("Classification/kernel", "classifier.weight",     "transposed"),
    ("Classification/bias",   "classifier.bias",       "same"),
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
    ("NSP-Dense/kernel",       "pre_classifier.weight", "transposed"),
    ("NSP-Dense/bias",         "pre_classifier.bias",   "same"),
    ("Multiple-Choice/kernel", "classifier.weight",     "transposed"),
    ("Multiple-Choice/bias",   "classifier.bias",       "same"),
)  # fmt: skip

HUGGINGFACE = NameTable(
    embeddings=EMBEDDINGS,
    block=BLOCK,
    heads={
        "mlm": MLM,
        "classification": CLASSIFICATION,
        "token_classification": TOKEN_CLASSIFICATION,
        "crf": bert.CRF,
        "question_answering": QUESTION_ANSWERING,
        "multiple_choice": MULTIPLE_CHOICE,
    },
    prefix="distilbert.",
    ignored=(r"(distilbert\.)?embeddings\.position_ids",),
    spellings=bert.HUGGINGFACE.spellings,
)

SIZES: tuple = (
    ("distilbert-base-uncased", {}, 66_362_880),
    ("distilbert-base-multilingual-cased", {"vocab_size": 119547}, 134_734_080),
)
