"""A sentence-transformers folder for text vectors, as the settings of a `SentenceEmbedder`."""

from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.limits import value_of
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.sentence_files import POOLING_NAMES
from keras_bert_rebuild.pretrained.sentence_modules import UnitModule, read_module
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    SETTINGS,
    Module,
    first_settings,
    folder_prompts,
    folder_settings,
    longest_text,
)

# Name of a similarity measure in the folder to ours.
MEASURES = {None: "cosine", "cosine": "cosine", "dot": "dot", "dot_product": "dot"}


def dense_settings(path: Path, modules: list[Module]) -> tuple[dict[str, Any], bool]:
    """The settings of a `SentenceEmbedder`, and whether texts are lower-cased whatever the tokenizer's settings.

    Args:
        path: the folder.
        modules: its modules.

    Raises:
        ValueError: a module, a pooling or a setting is not supported.
    """
    kinds = [module.kind for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ValueError(f"{path / MODULES} must name the modules Transformer and Pooling first; got {', '.join(kinds)}.")
    later = [read_module(module.kind, module.folder) for module in modules[2:]]
    later = [module for module in later if module is not None]
    normalize = later[-1:] == [UnitModule()]
    folder = modules[0].folder
    first = first_settings(folder, (None, "feature-extraction"), ("query_expansion",))
    if first.get("module_output_name") not in (None, "token_embeddings"):
        raise ValueError(f"{folder} must have module_output_name token_embeddings; got {first['module_output_name']!r:.80}.")
    values = folder_settings(path)
    prompts, default = folder_prompts(values, path / SETTINGS)
    poolings, include_prompt = read_poolings(modules[1].folder / "config.json")
    measure, cut = (value_of(values, key, of, path / SETTINGS) for key, of in (("similarity_fn_name", str), ("truncate_dim", int)))
    if measure not in MEASURES:
        raise ValueError(f"{path / SETTINGS} must have similarity_fn_name cosine or dot; got {measure!r:.80}.")
    if cut is not None and cut < 1:
        raise ValueError(f"{path / SETTINGS} must have a number of at least 1 as truncate_dim; got {cut!r:.80}.")
    settings = {
        "poolings": poolings,
        "modules": tuple(later[:-1] if normalize else later),
        "normalize": normalize,
        "prompts": prompts,
        "default_prompt": default,
        "include_prompt": include_prompt,
        "truncate_dim": cut,
        "measure": MEASURES[measure],
        "truncate": True,
        "max_len": longest_text(first, folder),
    }
    return settings, bool(first.get("do_lower_case"))


def read_poolings(file: Path) -> tuple[tuple[str, ...], bool]:
    """The poolings of a `Pooling` module in order, and whether the tokens of a prompt are pooled, too.

    Raises:
        ValueError: a pooling is unknown or occurs twice.
    """
    values = read_json(file, "the pooling of sentence-transformers")
    ours = {theirs: name for name, (_, theirs) in POOLING_NAMES.items()}
    if "pooling_mode" in values:
        given = value_of(values, "pooling_mode", str | list[str], file, [])
        named = given if isinstance(given, list) else [given]
    else:
        named = [theirs for key, theirs in POOLING_NAMES.values() if value_of(values, key, bool, file)] or ["mean"]
    if not named or len(set(named)) < len(named) or not all(name in ours for name in named):
        raise ValueError(f"{file} must choose some of {', '.join(ours)}, each once; got {', '.join(named) or 'none'}.")
    return tuple(ours[name] for name in named), value_of(values, "include_prompt", bool, file, True)
