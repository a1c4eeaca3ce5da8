"""A sentence-transformers cross-encoder folder, as the settings of a `Reranker`."""

from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.limits import value_of
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    SETTINGS,
    Module,
    first_settings,
    folder_prompts,
    folder_settings,
    longest_text,
)

# Class in torch of the function from logit to score, to our activation.
ACTIVATIONS = {"Sigmoid": "sigmoid", "Identity": "linear"}

# The key of config.json in versions 4 and 5, and before.
OLD_KEY = "sbert_ce_default_activation_function"


def is_reranker(path: Path, folder: Path | None = None) -> bool:
    """Whether a folder is a cross-encoder with a single score.

    Args:
        path: the folder.
        folder: the folder of its model, if modules.json says that it is a cross-encoder; None to look for signs of one.
    """
    config = (path if folder is None else folder) / "config.json"
    if not config.is_file():
        return False
    values = read_json(config, "a config")
    named = value_of(values, "id2label", dict, config)
    one = value_of(values, "num_labels", int, config, 2 if named is None else len(named)) == 1
    marked = OLD_KEY in values or "activation_fn" in value_of(values, "sentence_transformers", dict, config, {})
    return one and (folder is not None or marked or folder_settings(path).get("model_type") == "CrossEncoder")


def reranker_settings(path: Path, modules: list[Module]) -> tuple[dict[str, Any], bool]:
    """The settings of a `Reranker`, and whether texts are lower-cased whatever the tokenizer's settings: see `dense_settings`."""
    kinds = [module.kind for module in modules]
    if modules and kinds != ["Transformer"]:
        raise ValueError(f"{path / MODULES} must name the module Transformer alone; got {', '.join(kinds)}.")
    folder = modules[0].folder if modules else path
    first = first_settings(folder, ("sequence-classification",)) if modules else {}
    values = folder_settings(path) if modules else {}  # without modules, sentence-transformers reads only the model
    prompts, default = folder_prompts(values, path / SETTINGS)
    if default is not None and prompts.get(default):
        raise ValueError(f"{path / SETTINGS} must have no default prompt, since a Reranker has none; got {prompts[default]!r:.80}.")
    settings = {
        "activation": _activation(values, folder / "config.json", path / SETTINGS),
        "truncate": True,
        "max_len": longest_text(first, folder),
    }
    return settings, bool(first.get("do_lower_case"))


def _activation(values, config, settings):
    """The activation by the keys of version 5.4 and later, of version 4, or of version 3; by default the sigmoid of one label."""
    of_config = read_json(config, "a config")
    of_library = value_of(of_config, "sentence_transformers", dict, config, {})
    places = ((values, "activation_fn", settings), (of_library, "activation_fn", config), (of_config, OLD_KEY, config))
    found = ((value_of(of, key, str, where), where) for of, key, where in places)
    name, where = next((pair for pair in found if pair[0]), ("torch.nn.modules.activation.Sigmoid", config))
    kind = name.rsplit(".", 1)[-1]
    if not name.startswith("torch.nn.") or kind not in ACTIVATIONS:
        raise ValueError(f"{where} must have an activation_fn of torch.nn among {', '.join(ACTIVATIONS)}; got {name!r:.80}.")
    return ACTIVATIONS[kind]
