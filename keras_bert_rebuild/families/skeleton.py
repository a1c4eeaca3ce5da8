"""The modules of our graph that formats have names for: every name table gives names to a selection of them."""

from keras_bert_rebuild.checkpoints.modules import Module, dense, embedding, fused, norm

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
INTERMEDIATE = dense("Encoder-{block}-FeedForward/intermediate")
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
