"""What TensorFlow's Model Garden calls the weights of a BERT, in checkpoints of objects."""

from keras_bert_rebuild.checkpoints.table import NameTable

# Layers by number, kernels of attention split by heads.
# {keras_layer} is the number of the block, and behind the last one that of the pooler.
MODEL_GARDEN_EMBEDDINGS = (
    ("Embedding-Token/embeddings",    "encoder/layer_with_weights-0/embeddings", "same"),
    ("Embedding-Position/embeddings", "encoder/layer_with_weights-1/embeddings", "positions"),
    ("Embedding-Segment/embeddings",  "encoder/layer_with_weights-2/embeddings", "same"),
    ("Embedding-Norm/gamma",          "encoder/layer_with_weights-3/gamma",      "same"),
    ("Embedding-Norm/beta",           "encoder/layer_with_weights-3/beta",       "same"),
)  # fmt: skip

MODEL_GARDEN_BLOCK = (
    ("Encoder-{block}-MultiHeadSelfAttention/query/kernel",  "encoder/layer_with_weights-{keras_layer}/_attention_layer/_query_dense/kernel",  "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/query/bias",    "encoder/layer_with_weights-{keras_layer}/_attention_layer/_query_dense/bias",    "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/kernel",    "encoder/layer_with_weights-{keras_layer}/_attention_layer/_key_dense/kernel",    "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/key/bias",      "encoder/layer_with_weights-{keras_layer}/_attention_layer/_key_dense/bias",      "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/kernel",  "encoder/layer_with_weights-{keras_layer}/_attention_layer/_value_dense/kernel",  "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/value/bias",    "encoder/layer_with_weights-{keras_layer}/_attention_layer/_value_dense/bias",    "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "encoder/layer_with_weights-{keras_layer}/_attention_layer/_output_dense/kernel", "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "encoder/layer_with_weights-{keras_layer}/_attention_layer/_output_dense/bias",   "split"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/kernel", "encoder/layer_with_weights-{keras_layer}/_attention_output_dense/kernel",        "split", "read"),
    ("Encoder-{block}-MultiHeadSelfAttention/output/bias",   "encoder/layer_with_weights-{keras_layer}/_attention_output_dense/bias",          "split", "read"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/gamma",    "encoder/layer_with_weights-{keras_layer}/_attention_layer_norm/gamma",           "same"),
    ("Encoder-{block}-MultiHeadSelfAttention-Norm/beta",     "encoder/layer_with_weights-{keras_layer}/_attention_layer_norm/beta",            "same"),
    ("Encoder-{block}-FeedForward/intermediate/kernel",      "encoder/layer_with_weights-{keras_layer}/_intermediate_dense/kernel",            "same"),
    ("Encoder-{block}-FeedForward/intermediate/bias",        "encoder/layer_with_weights-{keras_layer}/_intermediate_dense/bias",              "same"),
    ("Encoder-{block}-FeedForward/output/kernel",            "encoder/layer_with_weights-{keras_layer}/_output_dense/kernel",                  "same"),
    ("Encoder-{block}-FeedForward/output/bias",              "encoder/layer_with_weights-{keras_layer}/_output_dense/bias",                    "same"),
    ("Encoder-{block}-FeedForward-Norm/gamma",               "encoder/layer_with_weights-{keras_layer}/_output_layer_norm/gamma",              "same"),
    ("Encoder-{block}-FeedForward-Norm/beta",                "encoder/layer_with_weights-{keras_layer}/_output_layer_norm/beta",               "same"),
)  # fmt: skip

MODEL_GARDEN_POOLER = (
    ("NSP-Dense/kernel", "encoder/layer_with_weights-{keras_layer}/kernel", "same"),
    ("NSP-Dense/bias",   "encoder/layer_with_weights-{keras_layer}/bias",   "same"),
)  # fmt: skip

MODEL_GARDEN = NameTable(
    embeddings=MODEL_GARDEN_EMBEDDINGS,
    block=MODEL_GARDEN_BLOCK,
    heads={"pooler": MODEL_GARDEN_POOLER},
    prefix="encoder/",
    ignored=(r"_CHECKPOINTABLE_OBJECT_GRAPH", r"(save_counter|step|global_step).*", r".*/\.OPTIMIZER_SLOT/.*", r"optimizer/.*"),
    spellings=((r"/\.ATTRIBUTES/VARIABLE_VALUE$", ""), (r"^model/", "encoder/")),
)
