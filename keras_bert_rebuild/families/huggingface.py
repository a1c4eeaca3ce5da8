"""The names in Hugging Face's files that all families have in common."""

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

# Spellings in files of 2018, which were converted from TensorFlow's.
SPELLINGS = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))


def shared_heads(pooler):
    """The heads that every family has.

    Args:
        pooler: dictionary from module to name, for the pooler of the heads for whole texts.
    """
    return {
        "classification": {**pooler, ours.CLASSIFICATION: "classifier"},
        "token_classification": {ours.TOKEN_CLASSIFICATION: "classifier"},
        "crf": {ours.CRF: "crf"},
        "question_answering": {ours.QUESTION_ANSWERING: "qa_outputs"},
        "multiple_choice": {**pooler, ours.MULTIPLE_CHOICE: "classifier"},
    }
