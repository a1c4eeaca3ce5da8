"""Modules of our graph that formats name, and what the names in Hugging Face files of all families share.

Every name table has a selection of the modules.
"""

from keras_bert_rebuild.checkpoints.table import Module, Naming, dense, embedding, fused, norm

TOKEN = embedding("Embedding-Token")
SEGMENT = embedding("Embedding-Segment")
POSITION = embedding("Embedding-Position", layout="positions")
TASK = embedding("Embedding-Task")
EMBEDDING_NORM = norm("Embedding-Norm")
MAPPING = dense("Embedding-Mapping")

QUERY = dense("Encoder-{block}-MultiHeadSelfAttention/query")
KEY = dense("Encoder-{block}-MultiHeadSelfAttention/key")
VALUE = dense("Encoder-{block}-MultiHeadSelfAttention/value")
QKV = fused(QUERY, KEY, VALUE)
ATTENTION_OUTPUT = dense("Encoder-{block}-MultiHeadSelfAttention/output")
ATTENTION_NORM = norm("Encoder-{block}-MultiHeadSelfAttention-Norm")
GATE = dense("Encoder-{block}-FeedForward/gate")
INTERMEDIATE = dense("Encoder-{block}-FeedForward/intermediate")
GATE_AND_INTERMEDIATE = fused(GATE, INTERMEDIATE)
OUTPUT = dense("Encoder-{block}-FeedForward/output")
OUTPUT_NORM = norm("Encoder-{block}-FeedForward-Norm")

POOLER = dense("NSP-Dense")
MLM_DENSE = dense("MLM-Dense")
MLM_NORM = norm("MLM-Norm")
MLM_BIAS = Module(("MLM-Sim",), ("bias",))
NSP = dense("NSP")
SOP = dense("SOP")
CLASSIFICATION = dense("Classification")
TOKEN_CLASSIFICATION = dense("Token-Classification")
CRF = Module(("Token-Classification-CRF",), ("next", "begin", "end"))
QUESTION_ANSWERING = dense("Question-Answering")
MULTIPLE_CHOICE = dense("Multiple-Choice")
RTD_DENSE = dense("RTD-Dense")
RTD = dense("RTD")


def same(*names):
    """Rows of `CONFIG` for fields of the config whose keys in config.json have the same names."""
    return tuple((name, name) for name in names)


PYTORCH = Naming(
    endings={
        "kernel": ".weight",
        "bias": ".bias",
        "gamma": ".weight",
        "beta": ".bias",
        "embeddings": ".weight",
        # Not Hugging Face's: the names in files of taggers made with pytorch-crf.
        "next": ".transitions",
        "begin": ".start_transitions",
        "end": ".end_transitions",
    },
    layouts={"kernel": "transposed"},
)

# Spellings in files of 2018, converted from TensorFlow.
SPELLINGS = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))


def shared_heads(pooler):
    """The heads that every family has.

    Args:
        pooler: dictionary from module to name, for the pooler of text heads.
    """
    return {
        "classification": {**pooler, CLASSIFICATION: "classifier"},
        "token_classification": {TOKEN_CLASSIFICATION: "classifier"},
        "crf": {CRF: "crf"},
        "question_answering": {QUESTION_ANSWERING: "qa_outputs"},
        "multiple_choice": {**pooler, MULTIPLE_CHOICE: "classifier"},
    }
