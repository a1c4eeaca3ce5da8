"""What all folders of sentence-transformers have in common, versions 2 to 6: modules, their places, limits of texts and prompts."""

from collections import namedtuple
from pathlib import Path

from keras_bert_rebuild.files.json_text import parsed_json
from keras_bert_rebuild.pretrained.config_files import read_json

# A module of modules.json: the last part of its class, and where its files are.
Module = namedtuple("Module", ["kind", "folder"])

MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"

# Whose classes may be named; PyLate has a dense layer of its own.
PACKAGES = ("sentence_transformers.", "pylate.")

# Names of the file with the settings of the first module; the first one that exists is used.
FIRST_SETTINGS = tuple(
    f"sentence_{family}_config.json" for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)

# Settings of the first module that change what it computes, and their allowed values.
PLAIN: tuple = (
    ("tokenizer_name_or_path", (None,)),
    ("processing_kwargs", (None, {})),
    *((key, (None, {})) for what in ("model", "tokenizer", "processor", "config") for key in (f"{what}_args", f"{what}_kwargs")),
)

# The prompts of queries and documents always exist, and are empty unless the folder says otherwise.
ALWAYS = ("query", "document")


def folder_modules(path: Path) -> list[Module]:
    """The modules of a folder, in order.

    Raises:
        ValueError: modules.json is something else, names classes of other packages or leads out of the folder.
    """
    file = path / MODULES
    values = parsed_json(file)
    if not isinstance(values, list) or not all(isinstance(module, dict) for module in values):
        raise ValueError(f"{file} must hold a list of modules; got {type(values).__name__}.")
    return [Module(_kind(module, file), _inside(path, module.get("path", ""))) for module in values]


def folder_settings(path: Path) -> dict:
    """config_sentence_transformers.json, or nothing."""
    file = path / SETTINGS
    return read_json(file, "the settings of sentence-transformers") if file.is_file() else {}


def first_settings(folder: Path, tasks: tuple, others: tuple = ()) -> dict:
    """The settings of the first module, a `Transformer`.

    Args:
        folder: where it is.
        tasks: the values that `transformer_task` may have.
        others: further settings that must not be set.

    Raises:
        ValueError: it computes something else.
    """
    values: dict = next(
        (read_json(folder / name, "the limits of a text") for name in FIRST_SETTINGS if (folder / name).is_file()), {}
    )
    wanted = (("transformer_task", tasks), *PLAIN, *((name, (None,)) for name in others))
    other = [f"{key} must be {plain[-1]!r}, got {values.get(key)!r:.80}" for key, plain in wanted if values.get(key) not in plain]
    if other:
        raise ValueError(f"{folder} describes another computation of vectors: {'; '.join(other)}.")
    return values


def longest_text(values: dict, folder: Path) -> int | None:
    """The maximum number of tokens in a text: `max_seq_length`, or that of the tokenizer; None if that of the model is less.

    Args:
        values: the settings of the first module.
        folder: where the tokenizer and the config of the model are.
    """
    limit = whole_number(values, "max_seq_length", folder)
    if limit is not None:
        return limit
    of_tokenizer, of_model = (
        read_json(folder / name, "a config").get(key) if (folder / name).is_file() else None
        for name, key in (("tokenizer_config.json", "model_max_length"), ("config.json", "max_position_embeddings"))
    )
    if not isinstance(of_tokenizer, (int, float)) or (isinstance(of_model, int) and of_tokenizer >= of_model):
        return None
    return int(of_tokenizer)


def whole_number(values: dict, key: str, where: Path) -> int | None:
    """A number of some settings, or None; a ValueError for anything else."""
    number = values.get(key)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise ValueError(f"{where} must have a whole number as {key}; got {number!r:.80}.")
    return number


def folder_prompts(values: dict, file: Path) -> tuple[dict[str, str], str | None]:
    """The prompts of a folder by name, and the name of the default one.

    Raises:
        ValueError: they are not texts by name, or the default one is not among them.
    """
    name, prompts = values.get("default_prompt_name"), values.get("prompts") or {}
    texts = prompts.values() if isinstance(prompts, dict) else [prompts]
    if not isinstance(prompts, dict) or not all(text is None or isinstance(text, str) for text in texts):
        raise ValueError(f"{file} must have prompts by name; got {prompts!r:.80}.")
    if name is not None and (not isinstance(name, str) or (name not in prompts and name not in ALWAYS)):
        known = ", ".join(prompts) or "none"
        raise ValueError(f"{file} must have the default prompt {name!r:.80} among its prompts; it has {known}.")
    return {key: text or "" for key, text in prompts.items() if text or key == name}, name


def _kind(module, file):
    kind = str(module.get("type", ""))
    if not kind.startswith(PACKAGES):
        raise ValueError(f"{file} must name modules of sentence_transformers; got {kind!r}.")
    return kind.rsplit(".", 1)[-1]


def _inside(folder, name):
    """The folder of a module, which must be inside `folder`."""
    inner = folder / name
    if not inner.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"the modules of {folder} must be inside it; got {name!r}.")
    return inner
