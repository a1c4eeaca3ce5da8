"""BERT as Google released it: the names of its checkpoints beside the paths of our variables."""

# Our variable path, their name, layout. {block} counts from 1 on our side; {layer} = block − 1 on theirs.
GOOGLE_EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "bert/embeddings/word_embeddings",       "same"),
    ("Embedding-Segment/embeddings",  "bert/embeddings/token_type_embeddings", "same"),
    ("Embedding-Position/embeddings", "bert/embeddings/position_embeddings",   "first rows"),
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

GOOGLE_HEADS = (
    ("MLM-Dense/kernel", "cls/predictions/transform/dense/kernel",    "same"),
    ("MLM-Dense/bias",   "cls/predictions/transform/dense/bias",      "same"),
    ("MLM-Norm/gamma",   "cls/predictions/transform/LayerNorm/gamma", "same"),
    ("MLM-Norm/beta",    "cls/predictions/transform/LayerNorm/beta",  "same"),
    ("MLM-Sim/bias",     "cls/predictions/output_bias",               "same"),
    ("NSP-Dense/kernel", "bert/pooler/dense/kernel",                  "same"),
    ("NSP-Dense/bias",   "bert/pooler/dense/bias",                    "same"),
    ("NSP/kernel",       "cls/seq_relationship/output_weights",       "transposed"),
    ("NSP/bias",         "cls/seq_relationship/output_bias",          "same"),
)  # fmt: skip
