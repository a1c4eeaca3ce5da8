"""A sentence-transformers or PyLate folder for token vectors, as the settings of a `LateInteractionEmbedder`."""

import string
from pathlib import Path
from typing import Any

from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.sentence_files import TOKENS
from keras_bert_rebuild.pretrained.sentence_modules import UnitModule, read_module
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    SETTINGS,
    Module,
    first_settings,
    folder_prompts,
    folder_settings,
    longest_text,
    whole_number,
)

# Settings of PyLate, which sentence-transformers stores with its modules.
OF_PYLATE = (
    *("query_prefix", "document_prefix", "query_length", "document_length", "skiplist_words"),
    *("do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"),
)

# Length that queries are expanded to if the folder does not give one.
QUERY_LENGTH = 32

MASK = "MultiVectorMask"

# Names of MaxSim, and measures for text vectors that older folders have instead.
MEASURES = ("none", "maxsim", "cosine", "dot")


def late_interaction_settings(path: Path, modules: list[Module]) -> tuple[dict[str, Any], bool]:
    """The settings of a `LateInteractionEmbedder`, and whether texts are lower-cased: see `dense_settings`."""
    kinds = [module.kind for module in modules]
    if kinds[:1] != ["Transformer"] or kinds.count(MASK) > 1:
        raise ValueError(f"{path / MODULES} must name the module Transformer first and one {MASK}; got {', '.join(kinds)}.")
    folder, values = modules[0].folder, folder_settings(path)
    first = first_settings(folder, (None, "feature-extraction"))
    later = [read_module(module.kind, module.folder, TOKENS) for module in modules[1:] if module.kind != MASK]
    later = [module for module in later if module is not None]
    of_pylate = values.get("model_type") == "ColBERT" or any(key in values for key in OF_PYLATE)
    if of_pylate and MASK not in kinds and later[-1:] != [UnitModule()]:
        later.append(UnitModule())  # PyLate normalises vectors itself
    if str(values.get("similarity_fn_name")).lower() not in MEASURES:
        raise ValueError(f"{path / SETTINGS} must have similarity_fn_name maxsim; got {values['similarity_fn_name']!r:.80}.")
    prompts, default = folder_prompts(values, path / SETTINGS)
    if default is not None and prompts.get(default):
        raise ValueError(f"{path / SETTINGS} must have no default prompt, since texts are queries or documents; got {default!r}.")
    longest = longest_text(first, folder)
    expansion = _expansion(first, values, of_pylate, folder)
    lengths = {**values, **{key: value for key, value in first.items() if value is not None}}
    query_length = whole_number(lengths, "query_length", folder) or longest
    settings = {
        "modules": tuple(later),
        "query_len": expansion["length"] if expansion else query_length,
        "document_len": whole_number(lengths, "document_length", folder) or longest,
        "query_prefix": _prefix(prompts, values, "query"),
        "document_prefix": _prefix(prompts, values, "document"),
        "query_expansion": bool(expansion),
        "attend_to_expansion": bool(expansion and expansion.get("attend", False)),
        "skiplist_words": _skipped(modules, values, of_pylate),
    }
    return settings, bool(first.get("do_lower_case"))


def _prefix(prompts, values, of):
    """The text put before a text: PyLate's prefix, followed by the prompt."""
    prefix = values.get(f"{of}_prefix") or ""
    return prefix + prompts.get(of, "").removeprefix(prefix)


def _expansion(first, values, of_pylate, folder):
    """How a query is expanded with masks, or None."""
    expansion = first.get("query_expansion", values.get("query_expansion"))
    if "query_expansion" not in first and "query_expansion" not in values and of_pylate:
        if values.get("do_query_expansion") is False:
            return None
        attend = values.get("attend_to_expansion_tokens", values.get("attend_to_mask_tokens"))
        return {"length": whole_number(values, "query_length", folder) or QUERY_LENGTH, "attend": bool(attend)}
    if not expansion:
        return None
    if not isinstance(expansion, dict) or expansion.get("strategy") != "fixed" or not isinstance(expansion.get("length"), int):
        raise ValueError(f"{folder} must have a query_expansion of the strategy fixed, with a length; got {expansion!r:.80}.")
    if expansion.get("token") is not None:
        raise ValueError(f"{folder} must expand queries with the mask token of the tokenizer; got {expansion['token']!r:.80}.")
    return expansion


def _skipped(modules, values, of_pylate):
    """The words whose vectors are left out of documents (the skip list)."""
    file = next((module.folder / "config.json" for module in modules if module.kind == MASK), None)
    if file is None:
        words = values.get("skiplist_words")
        return list(string.punctuation) if words is None and of_pylate else list(words or ())
    mask = read_json(file, "the settings of a module") if file.is_file() else {}
    if mask.get("skiplist_tasks") not in (None, "document", ["document"]) or mask.get("keep_only_token_ids"):
        raise ValueError(f"{file} must only leave words out of documents; got {mask!r:.120}.")
    return list(mask.get("skiplist_words") or ())
