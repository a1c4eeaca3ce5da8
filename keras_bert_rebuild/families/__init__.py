"""The differences between the families, as data without code."""

from keras_bert_rebuild.families import albert, bert, distilbert, electra, modernbert, roberta

# Hugging Face's name of a family to the module with its data.
FAMILIES = {
    model_type: module for module in (bert, roberta, distilbert, albert, electra, modernbert) for model_type in module.MODEL_TYPES
}

# The heads of a class of Hugging Face, and how its name ends.
CLASSES = (
    (("mlm", "nsp"), "ForPreTraining"),
    (("mlm", "sop"), "ForPreTraining"),
    (("rtd",), "ForPreTraining"),
    (("mlm",), "ForMaskedLM"),
    (("nsp",), "ForNextSentencePrediction"),
    (("classification",), "ForSequenceClassification"),
    (("token_classification",), "ForTokenClassification"),
    (("question_answering",), "ForQuestionAnswering"),
    (("multiple_choice",), "ForMultipleChoice"),
    (("pooler",), "Model"),
    ((), "Model"),
)
