"""Names in Hugging Face files that all families share."""

from keras_bert_rebuild.checkpoints.modules import Naming
from keras_bert_rebuild.families import skeleton as ours

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
        "classification": {**pooler, ours.CLASSIFICATION: "classifier"},
        "token_classification": {ours.TOKEN_CLASSIFICATION: "classifier"},
        "crf": {ours.CRF: "crf"},
        "question_answering": {ours.QUESTION_ANSWERING: "qa_outputs"},
        "multiple_choice": {**pooler, ours.MULTIPLE_CHOICE: "classifier"},
    }
