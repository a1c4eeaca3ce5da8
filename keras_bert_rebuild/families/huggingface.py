"""What the names in Hugging Face's files have in common, whatever the family."""

from keras_bert_rebuild.checkpoints.modules import Naming
from keras_bert_rebuild.families import skeleton as ours

PYTORCH = Naming(
    endings={
        "kernel": ".weight",
        "bias": ".bias",
        "gamma": ".weight",
        "beta": ".bias",
        "embeddings": ".weight",
        # Not of Hugging Face: what taggers made with pytorch-crf have in their files.
        "next": ".transitions",
        "begin": ".start_transitions",
        "end": ".end_transitions",
    },
    layouts={"kernel": "transposed"},
)

# Those of the files of 2018, which were made from TensorFlow's.
SPELLINGS = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))


def shared_heads(pooler):
    """The heads that every family has.

    Args:
        pooler: dictionary from module to name of what stands before the heads for a whole text.
    """
    return {
        "classification": {**pooler, ours.CLASSIFICATION: "classifier"},
        "token_classification": {ours.TOKEN_CLASSIFICATION: "classifier"},
        "crf": {ours.CRF: "crf"},
        "question_answering": {ours.QUESTION_ANSWERING: "qa_outputs"},
        "multiple_choice": {**pooler, ours.MULTIPLE_CHOICE: "classifier"},
    }
