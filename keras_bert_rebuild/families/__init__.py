"""The differences between the families, as data without code."""

from keras_bert_rebuild.families import albert, bert, deberta_v2, distilbert, roberta

# Hugging Face's name of a family to the module with its data.
FAMILIES = {model_type: module for module in (bert, roberta, distilbert, albert, deberta_v2) for model_type in module.MODEL_TYPES}

# The heads of a class of Hugging Face, and how its name ends.
CLASSES = (
    (("mlm", "nsp"), "ForPreTraining"),
    (("mlm", "sop"), "ForPreTraining"),
    (("mlm",), "ForMaskedLM"),
    (("nsp",), "ForNextSentencePrediction"),
    (("classification",), "ForSequenceClassification"),
    (("token_classification",), "ForTokenClassification"),
    (("question_answering",), "ForQuestionAnswering"),
    (("multiple_choice",), "ForMultipleChoice"),
    (("pooler",), "Model"),
    ((), "Model"),
)


def table_of(config):
    """The names in Hugging Face's files of a config: its family's, of which a setting may choose among several."""
    module = FAMILIES[config.family]
    return module.table_of(config) if hasattr(module, "table_of") else module.HUGGINGFACE
