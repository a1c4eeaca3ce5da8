"""A sentence-transformers or PyLate folder for token vectors, as the settings of a `LateInteractionEmbedder`."""

import string
from pathlib import Path
from typing import Any, Literal

from keras_bert_rebuild.files.limits import limit, value_of
from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.pretrained.sentence_files import TOKENS
from keras_bert_rebuild.pretrained.sentence_modules import UnitModule, read_module
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    SETTINGS,
    Module,
    first_file,
    first_settings,
    folder_prompts,
    folder_settings,
    longest_text,
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
    folder, values, file = modules[0].folder, folder_settings(path), path / SETTINGS
    first = first_settings(folder, (None, "feature-extraction"))
    later = [read_module(module.kind, module.folder, TOKENS) for module in modules[1:] if module.kind != MASK]
    later = [module for module in later if module is not None]
    has_settings = any(key in values for key in OF_PYLATE)
    of_pylate = values.get("model_type") == "ColBERT" or has_settings
    if of_pylate and MASK not in kinds and later[-1:] != [UnitModule()]:
        later.append(UnitModule())  # PyLate normalises vectors itself
    if value_of(values, "similarity_fn_name", str, file, "none").lower() not in MEASURES:
        raise ValueError(f"{file} must have similarity_fn_name maxsim; got {values['similarity_fn_name']!r:.80}.")
    prompts, default = folder_prompts(values, file)
    if default is not None and prompts.get(default):
        raise ValueError(f"{file} must have no default prompt, since texts are queries or documents; got {default!r}.")
    # Without lengths, texts are cut at the maximum of the model, which the embedder knows.
    longest = longest_text(first, folder) or limit("max_position_embeddings")
    expansion = _expansion(first, values, has_settings, folder, file)
    query_length, document_length = (
        value_of(first, f"{of}_length", int, first_file(folder)) or value_of(values, f"{of}_length", int, file) or longest
        for of in ("query", "document")
    )
    settings = {
        "modules": tuple(later),
        "query_len": expansion["length"] if expansion else query_length,
        "document_len": document_length,
        "query_prefix": _prefix(prompts, values, "query", file),
        "document_prefix": _prefix(prompts, values, "document", file),
        "query_expansion": bool(expansion),
        "attend_to_expansion": bool(expansion) and value_of(expansion, "attend", bool, file, False),
        "skiplist_words": _skipped(modules, values, of_pylate, file),
    }
    return settings, bool(first.get("do_lower_case"))


def _prefix(prompts, values, of, file):
    """The text put before a text: PyLate's prefix, followed by the prompt."""
    prefix = value_of(values, f"{of}_prefix", str, file, "")
    return prefix + prompts.get(of, "").removeprefix(prefix)


def _expansion(first, values, has_settings, folder, file):
    """How a query is expanded with masks, or None."""
    if "query_expansion" not in first and "query_expansion" not in values and has_settings:
        if not value_of(values, "do_query_expansion", bool, file, True):
            return None
        attend = value_of(values, "attend_to_mask_tokens", bool, file, False)  # the older name
        attend = value_of(values, "attend_to_expansion_tokens", bool, file, attend)
        return {"length": value_of(values, "query_length", int, file) or QUERY_LENGTH, "attend": attend}
    where, given = (first_file(folder), first) if "query_expansion" in first else (file, values)
    expansion = value_of(given, "query_expansion", dict | Literal[False], where)
    if not expansion:
        return None
    if expansion.get("strategy") != "fixed" or not value_of(expansion, "length", int, where):
        raise ValueError(f"{where} must have a query_expansion of the strategy fixed, with a length; got {expansion!r:.80}.")
    if expansion.get("token") is not None:
        raise ValueError(f"{where} must expand queries with the mask token of the tokenizer; got {expansion['token']!r:.80}.")
    return expansion


def _skipped(modules, values, of_pylate, settings):
    """The words whose vectors are left out of documents (the skip list)."""
    file = next((module.folder / "config.json" for module in modules if module.kind == MASK), None)
    if file is None:
        return value_of(values, "skiplist_words", list[str], settings, list(string.punctuation) if of_pylate else [])
    mask = json_object(file)
    if mask.get("skiplist_tasks") not in (None, "document", ["document"]) or mask.get("keep_only_token_ids"):
        raise ValueError(f"{file} must only leave words out of documents; got {mask!r:.120}.")
    return value_of(mask, "skiplist_words", list[str], file, [])
