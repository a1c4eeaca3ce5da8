"""Names of BERT's weights in Keras files: keras_bert's .h5 files and the checkpoints of TensorFlow's Model Garden."""

from keras_bert_rebuild.checkpoints.table import NameTable, Naming, dense, tied, under
from keras_bert_rebuild.families import skeleton as ours

ENDINGS = {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma", "beta": "/beta", "embeddings": "/embeddings"}
KERAS = Naming(ENDINGS)

# Attention kernels have an axis of heads.
BY_HEADS = Naming(ENDINGS, layouts={"kernel": "split", "bias": "split"})

# keras_bert's layers have the same names as ours; in them, kernels are W and biases b, followed by a letter. Releases 0.69 to 0.81
# have adapters.
LETTERS = {ours.QUERY: "q", ours.KEY: "k", ours.VALUE: "v", ours.ATTENTION_OUTPUT: "o", ours.INTERMEDIATE: "1", ours.OUTPUT: "2"}
ADAPTERS = {
    dense(f"Encoder-{{block}}-{layer}-Adapter/{part}"): letter
    for layer in ("MultiHeadSelfAttention", "FeedForward")
    for part, letter in (("intermediate", "1"), ("output", "2"))
}


def _lettered(letters):
    return sum(
        (
            Naming({"kernel": f"/W{letter}", "bias": f"/b{letter}"}).rows({module: module.layers[0].rpartition("/")[0]})
            for module, letter in letters.items()
        ),
        (),
    )


def _like_ours(*modules):
    return KERAS.rows({module: module.layers[0] for module in modules})


KERAS_BERT = NameTable(
    embeddings=_like_ours(ours.TOKEN, ours.SEGMENT, ours.POSITION, ours.TASK, ours.EMBEDDING_NORM),
    block=_lettered(LETTERS) + _like_ours(ours.ATTENTION_NORM, ours.OUTPUT_NORM) + _lettered(ADAPTERS),
    heads={
        "pooler": _like_ours(ours.POOLER),
        "mlm": _like_ours(ours.MLM_DENSE, ours.MLM_NORM, ours.MLM_BIAS),
        "nsp": _like_ours(ours.POOLER, ours.NSP),
    },
)

# The Model Garden's layers are numbered: {keras_layer} is the number of the block, or of the pooler after the last block.
LAYER = "encoder/layer_with_weights-"
ATTENTION = {
    ours.QUERY: "_attention_layer/_query_dense",
    ours.KEY: "_attention_layer/_key_dense",
    ours.VALUE: "_attention_layer/_value_dense",
    ours.ATTENTION_OUTPUT: "_attention_layer/_output_dense",
    tied(ours.ATTENTION_OUTPUT): "_attention_output_dense",
}
REST = {
    ours.ATTENTION_NORM: "_attention_layer_norm",
    ours.INTERMEDIATE: "_intermediate_dense",
    ours.OUTPUT: "_output_dense",
    ours.OUTPUT_NORM: "_output_layer_norm",
}

MODEL_GARDEN = NameTable(
    embeddings=KERAS.rows(under(LAYER, {ours.TOKEN: "0", ours.POSITION: "1", ours.SEGMENT: "2", ours.EMBEDDING_NORM: "3"})),
    block=BY_HEADS.rows(under(f"{LAYER}{{keras_layer}}/", ATTENTION)) + KERAS.rows(under(f"{LAYER}{{keras_layer}}/", REST)),
    heads={"pooler": KERAS.rows({ours.POOLER: f"{LAYER}{{keras_layer}}"})},
    prefix="encoder/",
    ignored=(r"_CHECKPOINTABLE_OBJECT_GRAPH", r"(save_counter|step|global_step).*", r".*/\.OPTIMIZER_SLOT/.*", r"optimizer/.*"),
    spellings=((r"/\.ATTRIBUTES/VARIABLE_VALUE$", ""), (r"^model/", "encoder/")),
)
