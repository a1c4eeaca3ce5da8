"""The differences between model families, as data without code."""

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

# Hugging Face's `model_type` to the module of the family.
FAMILIES = {
    model_type: module
    for module in (bert, roberta, distilbert, albert, electra, deberta_v2, modernbert, nomic_bert, gte, xlnet)
    for model_type in module.MODEL_TYPES
}

# Families without files in other libraries: they are saved in Keras's own formats.
WITHOUT_FILES = (transformer,)

# Suffix of a Hugging Face class name, and the heads of that class.
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
    """The module of a family that has a Hugging Face format.

    Raises:
        ValueError: the family has none.
    """
    if family not in FAMILIES:
        raise ValueError(
            f"family must be one of {', '.join(FAMILIES)}, which have a Hugging Face format; got {family!r:.80}, whose models are "
            "saved with format 'keras'."
        )
    return FAMILIES[family]


# Optional tables and functions of a family module, with their defaults.
_OPTIONAL = {
    # Fields that differ from the defaults of the config class, and functions of all fields for those computed from others.
    "DEFAULTS": {},
    "DERIVED": {},
    # Aliases of the keys of config.json in `CONFIG`.
    "ALIASES": (),
    # Keys of config.json and the values they must have; other values mean another architecture.
    "FIXED": (),
    # The heads and suffixes of Hugging Face classes whose names differ from `CLASSES`.
    "SUFFIXES": {},
    # The values of a config.json in one spelling, if the family has several; `where` is the file, for errors.
    "in_one_spelling": lambda values, where: values,
    # Why a config.json describes another architecture, if no table covers that; else None.
    "problem_of": lambda values: None,
    # Keys of config.json besides `CONFIG`.
    "further_keys": lambda config: {},
    # The config adapted to the names of the weights in a file.
    "fitted": lambda config, names: config,
    # The name table for a config; None for `HUGGINGFACE`.
    "table_of": lambda config: None,
    # The name table of Google's checkpoints for a config; None for BERT's.
    "google_table_of": lambda config: None,
}


def suffixes_of(module):
    """The heads of a class of a family, and how its name ends."""
    return {**dict(CLASSES), **own(module, "SUFFIXES")}


def googles(values):
    """The module of the family whose Google config has the keys of these values, by default BERT's."""
    with_google_files = (module for module in FAMILIES.values() if hasattr(module, "GOOGLE_CONFIG"))
    return next((module for module in with_google_files if {key for _, key in module.GOOGLE_CONFIG} <= set(values)), bert)


def own(module, name):
    """The table or function of a family for a name in `_OPTIONAL`, or the default."""
    return getattr(module, name, _OPTIONAL[name])


def derived(config):
    """The config with the fields that its family computes from others."""
    functions = own(FAMILIES[config.family], "DERIVED")
    return config.replace(**{field: derive(config.to_dict()) for field, derive in functions.items()})


def table_of(config):
    """The names of a config in Hugging Face files: those of its family, some of which depend on settings.

    Raises:
        ValueError: see `huggingface_of`.
    """
    module = huggingface_of(config.family)
    return own(module, "table_of")(config) or module.HUGGINGFACE


def google_table_of(config):
    """The names of a config in Google's checkpoints."""
    return own(FAMILIES.get(config.family), "google_table_of")(config) or bert.GOOGLE
