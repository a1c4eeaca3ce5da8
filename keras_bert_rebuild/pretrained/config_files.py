"""`BertConfig` from and to config files of other libraries: everything is converted, or what cannot be is listed."""

from pathlib import Path

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import FAMILIES, bert, derived, googles, huggingface_of, own, suffixes_of
from keras_bert_rebuild.files.limits import check_limit
from keras_bert_rebuild.files.reading import json_object

# Names of activations in other libraries and ours: "gelu" is one function in Google's files and another in Hugging Face's.
# Of several names for a function, the first is written.
HUGGINGFACE_ACTIVATIONS = (
    ("gelu", "gelu_erf"),
    ("gelu_python", "gelu_erf"),
    ("gelu_new", "gelu"),
    ("gelu_pytorch_tanh", "gelu"),
    ("gelu_accurate", "gelu"),
    ("gelu_fast", "gelu"),
    ("quick_gelu", "quick_gelu"),
    ("relu", "relu"),
    ("relu6", "relu6"),
    ("silu", "silu"),
    ("swish", "silu"),
    ("tanh", "tanh"),
    ("sigmoid", "sigmoid"),
    ("mish", "mish"),
    ("linear", "linear"),
)

# Google's code knows the first four and refuses other names; the rest are our names, so that no function is silently replaced.
GOOGLE_ACTIVATIONS = (
    ("gelu", "gelu"),
    ("relu", "relu"),
    ("tanh", "tanh"),
    ("linear", "linear"),
    *((ours, ours) for ours in ("gelu_erf", "quick_gelu", "relu6", "silu", "sigmoid", "mish")),
)


# Fields that do not affect the outputs of a trained model, so a format need not represent them.
WITHOUT_EFFECT = ("initializer_range", "labels", "problem_type", "classifier_dropout", "family", "crf", "dropout_before_pooler")

# Keys of Hugging Face that Google's bert_config.json lacks, because their values are fixed in Google's code.
GOOGLE_CONFIG = tuple(row for row in bert.CONFIG if row[0] not in ("classifier_dropout", "layer_norm_eps", "pad_token_id"))

# Fields whose values in files are activation names of other libraries.
ACTIVATIONS = ("hidden_act", "mlm_act", "pooler_act", "conv_act")

# Required keys, without which no model can be built.
GOOGLE_REQUIRED = (
    "vocab_size",
    "max_position_embeddings",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
)


def read_json(path, what):
    """The dictionary in a JSON file.

    Raises:
        ValueError: the file does not exist, or has something else.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"expected {what} at {path}; it does not exist.")
    return json_object(path)


def config_from_google(values, where="bert_config.json"):
    """The config in Google's `bert_config.json`.

    Args:
        values: the dictionary in the file.
        where: the file, for errors.
    """
    module = googles(values)
    if module is not bert:
        family = next(iter(module.MODEL_TYPES))
        _check_fixed(module, values, where)
        return _config({"family": family}, module.GOOGLE_CONFIG, GOOGLE_ACTIVATIONS, values, where)
    missing = [name for name in GOOGLE_REQUIRED if name not in values]
    if missing:
        raise ValueError(f"{where} must have {', '.join(GOOGLE_REQUIRED)}; {', '.join(missing)} is missing.")
    return _config({}, GOOGLE_CONFIG, GOOGLE_ACTIVATIONS, values, where)


def config_to_google(config):
    """The dictionary for `bert_config.json`.

    Raises:
        ValueError: the file cannot represent a value of the config, so Google's code would compute something else.
    """
    values = _values(config, GOOGLE_CONFIG, GOOGLE_ACTIVATIONS)
    if config.initializer_range is None:
        values["initializer_range"] = BertConfig.initializer_range
    _check_lossless(config, config_from_google(values), "Google's bert_config.json")
    return values


def config_from_huggingface(values, where="config.json"):
    """The config in a Hugging Face `config.json`.

    Args:
        values: the dictionary in the file.
        where: the file, for errors.

    Raises:
        ValueError: an unknown family or activation, or a value that describes another architecture.
    """
    # Files of 2019 do not name the family; there was only BERT.
    family = values.get("model_type", "bert")
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(f"{where}: expected a model_type among {', '.join(FAMILIES)}; got {family!r:.80}.")
    module = FAMILIES[family]
    values = own(module, "in_one_spelling")(values, where)
    _check_fixed(module, values, where)
    defaults = {"family": family, **own(module, "DEFAULTS"), **module.CLASS_DEFAULTS[family]}
    defaults |= {"labels": _labels(values, where), "problem_type": values.get("problem_type")}
    defaults["crf"] = values.get("crf") is True  # our own key: transformers has no such head, and preserves unknown keys
    defaults["pruned_heads"] = values.get("pruned_heads") or ()
    return derived(_config(defaults, (*own(module, "ALIASES"), *module.CONFIG), HUGGINGFACE_ACTIVATIONS, values, where))


def config_to_huggingface(config, heads=(), dtype="float32"):
    """The dictionary for a Hugging Face `config.json`.

    Args:
        config: a `BertConfig`.
        heads: the heads of the model, which determine the name of the class.
        dtype: dtype of the weights in the file.

    Raises:
        ValueError: the file cannot represent a value of the config, or no class has these heads.
    """
    module = huggingface_of(config.family)
    if config.classifier_dropout is None and "classifier_dropout" in module.CLASS_DEFAULTS[config.family]:
        config = config.replace(classifier_dropout=config.hidden_dropout_prob)
    values = {
        "architectures": [module.MODEL_TYPES[config.family] + _class_suffix(module, heads)],
        "model_type": config.family,
        **_values(config, module.CONFIG, HUGGINGFACE_ACTIVATIONS),
        **own(module, "further_keys")(config),
        "dtype": dtype,
    }
    if config.initializer_range is None:
        values["initializer_range"] = BertConfig.initializer_range
    if config.pruned_heads:
        values["pruned_heads"] = {str(block): list(heads) for block, heads in config.pruned_heads}
    # transformers sizes every head by the number of labels, even question answering, which always has two outputs.
    if config.labels and "question_answering" not in heads:
        values["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
        values["label2id"] = {label: i for i, label in enumerate(config.labels)}
    if config.problem_type is not None and "classification" in heads:
        values["problem_type"] = config.problem_type
    if config.crf and "token_classification" in heads:
        values["crf"] = True
    _check_lossless(config, config_from_huggingface(values), f"Hugging Face's config.json of {config.family}")
    return values


def heads_of_class(values):
    """The heads of the class named in a `config.json`, or None for an unknown or missing class."""
    module = FAMILIES[values.get("model_type", "bert")]
    names = values.get("architectures")
    for name in names if isinstance(names, list) else ():
        for heads, suffix in suffixes_of(module).items():
            if module.HUGGINGFACE.heads.keys() >= set(heads) and name in (
                prefix + suffix for prefix in module.MODEL_TYPES.values()
            ):
                return heads
    return None


def _class_suffix(module, heads):
    suffixes = suffixes_of(module)
    for of_class, suffix in suffixes.items():
        if set(of_class) == set(heads):
            return suffix
    classes = "; ".join(" and ".join(of_class) or "none" for of_class in suffixes)
    raise ValueError(f"expected the heads of one Hugging Face class ({classes}); got {', '.join(heads)}.")


def _check_fixed(module, values, where):
    """Refuse values in a file that describe another architecture."""
    other = [(key, fixed) for key, fixed in own(module, "FIXED") if values.get(key) not in (fixed, None)]
    if other:
        wrong = "; ".join(f"{key} must be {fixed!r}, got {values[key]!r:.80}" for key, fixed in other)
        raise ValueError(f"{where} describes another architecture: {wrong}.")
    problem = own(module, "problem_of")(values)
    if problem:
        raise ValueError(f"{where} describes another architecture: {problem}.")


def _config(defaults, keys, activation_names, values, where):
    fields = dict(defaults)
    for field, key in keys:
        if values.get(key) is not None:
            fields[field] = values[key]
    for name in ACTIVATIONS:
        if fields.get(name) is not None and not isinstance(fields[name], str):
            # A dictionary would let Keras create an arbitrary object.
            raise ValueError(f"{where}: {name} must be the name of an activation; got {fields[name]!r:.80}.")
        if isinstance(fields.get(name), str) and any(values.get(key) is not None for field, key in keys if field == name):
            fields[name] = _our_activation(fields[name], activation_names, where)
    try:
        config = BertConfig.from_dict(fields)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from None
    return check_heads_divide(config, where)


def check_heads_divide(config, where):
    """The config of a file, if the number of heads divides the width; otherwise `get_model` would raise keras_bert's IndexError."""
    width, heads = config.hidden_size, config.num_attention_heads
    if width % heads:
        raise ValueError(f"{where}: num_attention_heads must divide hidden_size={width}; got {heads}.")
    return config


def _our_activation(name, names, where):
    ours = dict(names)
    if name not in ours:
        raise ValueError(f"{where}: expected an activation among {', '.join(ours)}; got {name!r:.80}.")
    return ours[name]


def _values(config, keys, activation_names):
    theirs = {ours: name for name, ours in reversed(activation_names)}
    values = {key: getattr(config, field) for field, key in keys if getattr(config, field) is not None}
    for field, key in keys:
        if field in ACTIVATIONS and key in values:
            if values[key] not in theirs:
                raise ValueError(f"expected an activation among {', '.join(theirs)}; got {values[key]!r}.")
            values[key] = theirs[values[key]]
    return values


def _check_lossless(config, back, format):
    fields = config.to_dict()
    if fields["mlm_act"] is None:
        fields["mlm_act"] = fields["hidden_act"]
    read = back.to_dict()
    if read["mlm_act"] is None:
        read["mlm_act"] = read["hidden_act"]
    lost = [f"{name}={value!r}" for name, value in fields.items() if name not in WITHOUT_EFFECT and value != read[name]]
    if lost:
        raise ValueError(f"{format} cannot represent {', '.join(lost)}, so other programs would compute something else.")


def _labels(values, where):
    labels, count = values.get("id2label"), values.get("num_labels", 2)
    if labels is None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"{where}: num_labels must be a whole number of at least 0; got {count!r:.80}.")
        check_limit("labels", count, f"{where}: num_labels")
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        if any(isinstance(name, (dict, list)) for name in labels.values()):
            raise TypeError
        return tuple(str(labels[key]) for key in sorted(labels, key=int))
    except (TypeError, ValueError, AttributeError):
        raise ValueError(f"{where}: id2label must map numbers to names; got {labels!r:.80}.") from None
