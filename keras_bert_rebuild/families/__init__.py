"""The differences between the families, as data without code."""

from keras_bert_rebuild.families import (
    albert,
    bert,
    deberta_v2,
    distilbert,
    electra,
    gte,
    modernbert,
    nomic_bert,
    roberta,
    transformer,
    xlnet,
)

# Hugging Face's name of a family to the module with its data.
FAMILIES = {
    model_type: module
    for module in (bert, roberta, distilbert, albert, electra, deberta_v2, modernbert, nomic_bert, gte, xlnet)
    for model_type in module.MODEL_TYPES
}

# Families that no other library has files of: they are saved in Keras's own formats.
WITHOUT_FILES = (transformer,)

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


def huggingface_of(family):
    """The module of a family that has names in Hugging Face's files.

    Raises:
        ValueError: the family has none.
    """
    if family not in FAMILIES:
        raise ValueError(
            f"family must be one of {', '.join(FAMILIES)}, which have names in Hugging Face's files; got {family!r:.80}, whose models "
            "are saved with format 'keras'."
        )
    return FAMILIES[family]


# What a family has besides its tables if its files need it; these are the defaults.
_OPTIONAL = {
    # The values of a config.json in one of several spellings; `where` is the file, for errors.
    "in_one_spelling": lambda values, where: values,
    # What of a config.json means another architecture and is in no table; None if nothing does.
    "problem_of": lambda values: None,
    # What config.json says besides `CONFIG`.
    "further_keys": lambda config: {},
    # The config that fits the names of the weights in a file.
    "fitted": lambda config, names: config,
    # The name table of a config; None for `HUGGINGFACE`.
    "table_of": lambda config: None,
    # The name table of a config in Google's checkpoints; None for BERT's.
    "google_table_of": lambda config: None,
}


def suffixes_of(module):
    """The heads of a class of a family, and how its name ends."""
    return {**dict(CLASSES), **getattr(module, "SUFFIXES", {})}


def googles(values):
    """The module of the family whose config of Google's has these values: the one whose keys they have, else BERT's."""
    known = (module for module in FAMILIES.values() if hasattr(module, "GOOGLE_CONFIG"))
    return next((module for module in known if {key for _, key in module.GOOGLE_CONFIG} <= set(values)), bert)


def own(module, name):
    """The function of a family with one of the names of `_OPTIONAL`, or the default."""
    return getattr(module, name, _OPTIONAL[name])


def table_of(config):
    """The names in Hugging Face's files of a config: its family's, of which a setting may choose among several.

    Raises:
        ValueError: see `huggingface_of`.
    """
    module = huggingface_of(config.family)
    return own(module, "table_of")(config) or module.HUGGINGFACE


def google_table_of(config):
    """The names in Google's checkpoints of a config."""
    return own(FAMILIES.get(config.family), "google_table_of")(config) or bert.GOOGLE
