"""What all sentence-transformers folders (versions 2 to 6) share: names, modules and their folders, maximum lengths, prompts."""

from collections import namedtuple
from pathlib import Path

from keras_bert_rebuild.files.limits import check_limit, is_number, limit
from keras_bert_rebuild.files.reading import json_object, parsed_json, value_of
from keras_bert_rebuild.pretrained.config_files import read_json

# A module of modules.json: the last component of its class, and the folder of its files.
Module = namedtuple("Module", ["kind", "folder"])

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"

# Packages whose classes are supported; PyLate has its own dense layer.
PACKAGES = ("sentence_transformers.", "pylate.")

# Names of the settings file of the first module; the first that exists is used.
FIRST_SETTINGS = tuple(
    f"sentence_{family}_config.json" for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)

# Settings of the first module that affect its computation, and their supported values.
PLAIN: tuple = (
    ("tokenizer_name_or_path", (None,)),
    ("processing_kwargs", (None, {})),
    *((key, (None, {})) for what in ("model", "tokenizer", "processor", "config") for key in (f"{what}_args", f"{what}_kwargs")),
)

# Poolings of `SentenceEmbedder`, in the order in which sentence-transformers concatenates them, to the key up to version 5 and the
# name in version 6.
POOLING_NAMES = {
    "cls": ("pooling_mode_cls_token", "cls"),
    "max": ("pooling_mode_max_tokens", "max"),
    "mean": ("pooling_mode_mean_tokens", "mean"),
    "mean_sqrt_len": ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    "weightedmean": ("pooling_mode_weightedmean_tokens", "weightedmean"),
    "lasttoken": ("pooling_mode_lasttoken", "lasttoken"),
}

# Class in torch of the function from logit to score, to the activation of a `Reranker`.
RERANKER_ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "linear"}

# Name of the function from logit to weight, to the activation of a `SparseEmbedder`: log(1 + relu(x)), and
# log(1 + log(1 + relu(x))).
SPARSE_ACTIVATIONS = {"relu": "log1p_relu", "log1p_relu": "log1p_log1p_relu"}

# Prompts of queries and documents always exist; they are empty unless the folder sets them.
ALWAYS = ("query", "document")


def folder_modules(path: Path) -> list[Module]:
    """The modules of a folder, in order.

    Raises:
        ValueError: modules.json is malformed, names classes of other packages or paths outside the folder.
    """
    file = path / MODULES
    values = parsed_json(file)
    if not isinstance(values, list) or not all(isinstance(module, dict) for module in values):
        raise ValueError(f"{file} must be a list of modules; got {type(values).__name__}.")
    check_limit("modules", len(values), str(file))
    return [Module(_kind(module, file), _inside(path, value_of(module, "path", str, file, ""))) for module in values]


def folder_settings(path: Path) -> dict:
    """The content of config_sentence_transformers.json; empty if it does not exist."""
    file = path / SETTINGS
    return read_json(file, "the settings of sentence-transformers") if file.is_file() else {}


class SentenceFolder:
    """The settings of a folder that all kinds of models have.

    Args:
        path: the folder.
        modules: its modules; empty for a folder without modules.json, of which sentence-transformers reads only the model.
        tasks: the supported values of `transformer_task`.
        others: other settings of the first module that must not be set.

    Attributes:
        folder: the folder of the first module, a `Transformer`: of the weights and the tokenizer.
        first_file, first: the file with the settings of the first module, which may not exist, and its content.
        file, values: config_sentence_transformers.json and its content.
        prompts, default_prompt: texts by name, and the name of the default one or None.
        max_len: maximum number of tokens of a text; None if that of the model is smaller.

    Raises:
        ValueError: a setting is not supported, or prompts are not texts by name with the default one among them.
    """

    def __init__(self, path: Path, modules: list[Module], tasks: tuple, unset: tuple = ()) -> None:
        self.folder, self.file = modules[0].folder if modules else path, path / SETTINGS
        names = (name for name in FIRST_SETTINGS if (self.folder / name).is_file())
        self.first_file = self.folder / next(names, FIRST_SETTINGS[0])
        self.first = _first_settings(self.first_file, tasks, unset) if modules else {}
        self.values = folder_settings(path) if modules else {}
        self.prompts, self.default_prompt = _prompts(self.values, self.file)
        longest = value_of(self.first, "max_seq_length", int, self.first_file)
        self.max_len = _longest_of_tokenizer(self.folder) if longest is None else longest


def _first_settings(file, tasks, unset):
    values = json_object(file)
    wanted = (("transformer_task", tasks), *PLAIN, *((name, (None,)) for name in unset))
    other = [f"{key} must be {plain[-1]!r}, got {values.get(key)!r:.80}" for key, plain in wanted if values.get(key) not in plain]
    if other:
        raise ValueError(f"{file} has settings that are not supported: {'; '.join(other)}.")
    value_of(values, "do_lower_case", bool, file)
    return values


def _longest_of_tokenizer(folder):
    """The maximum length of the tokenizer; None if it has none or that of the model is smaller."""
    of_tokenizer, of_model = (
        json_object(folder / name).get(key)
        for name, key in (("tokenizer_config.json", "model_max_length"), ("config.json", "max_position_embeddings"))
    )
    room = of_model if isinstance(of_model, int) else limit("max_position_embeddings")
    return int(of_tokenizer) if is_number(of_tokenizer) and of_tokenizer < room else None


def _prompts(values, file):
    name = value_of(values, "default_prompt_name", str, file)
    prompts = value_of(values, "prompts", dict[str, str | None], file, {})
    if name is not None and name not in prompts and name not in ALWAYS:
        names = ", ".join(prompts) or "none"
        raise ValueError(f"{file} must have the default prompt {name!r:.80} among its prompts; it has {names}.")
    return {key: text or "" for key, text in prompts.items() if text or key == name}, name


def _kind(module, file):
    kind = value_of(module, "type", str, file, "")
    if not kind.startswith(PACKAGES):
        raise ValueError(f"{file} must name modules of sentence_transformers; got {kind!r}.")
    return kind.rsplit(".", 1)[-1]


def _inside(folder, name):
    """The folder of a module, which must be inside `folder`."""
    inner = folder / name
    if not inner.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"the modules of {folder} must be inside it; got {name!r}.")
    return inner
