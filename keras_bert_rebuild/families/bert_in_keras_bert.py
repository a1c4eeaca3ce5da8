"""What keras_bert's own .h5 files call the weights of a BERT: layer, weight."""

from keras_bert_rebuild.checkpoints.table import NameTable

KERAS_BERT_EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "Embedding-Token/embeddings",    "same"),
    ("Embedding-Segment/embeddings",  "Embedding-Segment/embeddings",  "same"),
    ("Embedding-Position/embeddings", "Embedding-Position/embeddings", "positions"),
    ("Embedding-Task/embeddings",     "Embedding-Task/embeddings",     "same"),
    ("Embedding-Norm/gamma",          "Embedding-Norm/gamma",          "same"),
    ("Embedding-Norm/beta",           "Embedding-Norm/beta",           "same"),
)  # fmt: skip

KERAS_BERT_BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "Encoder-{block}-MultiHeadSelfAttention/Wq",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "Encoder-{block}-MultiHeadSelfAttention/bq",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "Encoder-{block}-MultiHeadSelfAttention/Wk",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "Encoder-{block}-MultiHeadSelfAttention/bk",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "Encoder-{block}-MultiHeadSelfAttention/Wv",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "Encoder-{block}-MultiHeadSelfAttention/bv",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "Encoder-{block}-MultiHeadSelfAttention/Wo",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "Encoder-{block}-MultiHeadSelfAttention/bo",         "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "Encoder-{block}-MultiHeadSelfAttention-Norm/gamma", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "Encoder-{block}-MultiHeadSelfAttention-Norm/beta",  "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "Encoder-{block}-FeedForward/W1",                    "same"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "Encoder-{block}-FeedForward/b1",                    "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "Encoder-{block}-FeedForward/W2",                    "same"),
    ("Encoder-{block}-FeedForward/output/bias",              "Encoder-{block}-FeedForward/b2",                    "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "Encoder-{block}-FeedForward-Norm/gamma",            "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "Encoder-{block}-FeedForward-Norm/beta",             "same"),
)  # fmt: skip

# Releases 0.69 to 0.81.
KERAS_BERT_ADAPTERS = (
    ("Encoder-{block}-MultiHeadSelfAttention-Adapter/intermediate/kernel", "Encoder-{block}-MultiHeadSelfAttention-Adapter/W1", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Adapter/intermediate/bias",   "Encoder-{block}-MultiHeadSelfAttention-Adapter/b1", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Adapter/output/kernel",       "Encoder-{block}-MultiHeadSelfAttention-Adapter/W2", "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Adapter/output/bias",         "Encoder-{block}-MultiHeadSelfAttention-Adapter/b2", "same"),
    ("Encoder-{block}-FeedForward-Adapter/intermediate/kernel",            "Encoder-{block}-FeedForward-Adapter/W1",            "same"),
    ("Encoder-{block}-FeedForward-Adapter/intermediate/bias",              "Encoder-{block}-FeedForward-Adapter/b1",            "same"),
    ("Encoder-{block}-FeedForward-Adapter/output/kernel",                  "Encoder-{block}-FeedForward-Adapter/W2",            "same"),
    ("Encoder-{block}-FeedForward-Adapter/output/bias",                    "Encoder-{block}-FeedForward-Adapter/b2",            "same"),
)  # fmt: skip

KERAS_BERT_POOLER = (
    ("NSP-Dense/kernel", "NSP-Dense/kernel", "same"),
    ("NSP-Dense/bias",   "NSP-Dense/bias",   "same"),
)  # fmt: skip

KERAS_BERT_MLM = (
    ("MLM-Dense/kernel", "MLM-Dense/kernel", "same"),
    ("MLM-Dense/bias",   "MLM-Dense/bias",   "same"),
    ("MLM-Norm/gamma",   "MLM-Norm/gamma",   "same"),
    ("MLM-Norm/beta",    "MLM-Norm/beta",    "same"),
    ("MLM-Sim/bias",     "MLM-Sim/bias",     "same"),
)  # fmt: skip

KERAS_BERT_NSP = (
    ("NSP/kernel", "NSP/kernel", "same"),
    ("NSP/bias",   "NSP/bias",   "same"),
)  # fmt: skip

KERAS_BERT = NameTable(
    embeddings=KERAS_BERT_EMBEDDINGS,
    block=KERAS_BERT_BLOCK + KERAS_BERT_ADAPTERS,
    heads={"pooler": KERAS_BERT_POOLER, "mlm": KERAS_BERT_MLM, "nsp": KERAS_BERT_POOLER + KERAS_BERT_NSP},
)
