"""Folders for token vectors, of sentence-transformers, PyLate and Stanford's ColBERT, as settings of a `LateInteractionEmbedder`.

Stanford's ColBERT has encoder and projection in one file of weights, and a settings file next to it.
"""

import string
from pathlib import Path
from typing import Any, Literal

from keras_bert_rebuild.files.limits import limit
from keras_bert_rebuild.files.reading import json_object, value_of
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
from keras_bert_rebuild.pretrained.sentence_files import TOKENS
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule, UnitModule, read_module
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    Module,
    SentenceFolder,
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


def late_interaction_settings(path: Path, modules: list[Module]) -> tuple[SentenceFolder, dict[str, Any]]:
    """The `SentenceFolder` and the settings of a `LateInteractionEmbedder` for a folder of sentence-transformers or PyLate."""
    kinds = [module.kind for module in modules]
    if kinds[:1] != ["Transformer"] or kinds.count(MASK) > 1:
        raise ValueError(f"{path / MODULES} must name the module Transformer first and one {MASK}; got {', '.join(kinds)}.")
    folder = SentenceFolder(path, modules, (None, "feature-extraction"))
    values, file, first, first_file = folder.values, folder.file, folder.first, folder.first_file
    later = [read_module(module.kind, module.folder, TOKENS) for module in modules[1:] if module.kind != MASK]
    later = [module for module in later if module is not None]
    has_settings = any(key in values for key in OF_PYLATE)
    of_pylate = values.get("model_type") == "ColBERT" or has_settings
    if of_pylate and MASK not in kinds and later[-1:] != [UnitModule()]:
        later.append(UnitModule())  # PyLate normalises vectors itself
    if value_of(values, "similarity_fn_name", str, file, "none").lower() not in MEASURES:
        raise ValueError(f"{file} must have similarity_fn_name maxsim; got {values['similarity_fn_name']!r:.80}.")
    if folder.prompts.get(folder.default_prompt):
        prompt = folder.default_prompt
        raise ValueError(f"{file} must have no default prompt, since texts are queries or documents; got {prompt!r}.")
    # Without lengths, texts are cut at the maximum of the model, which the embedder knows.
    longest = folder.max_len or limit("max_position_embeddings")
    expansion = _expansion(folder, has_settings)
    query_length, document_length = (
        value_of(first, f"{of}_length", int, first_file) or value_of(values, f"{of}_length", int, file) or longest
        for of in ("query", "document")
    )
    return folder, {
        "modules": tuple(later),
        "query_len": expansion["length"] if expansion else query_length,
        "document_len": document_length,
        "query_prefix": _prefix(folder, "query"),
        "document_prefix": _prefix(folder, "document"),
        "query_expansion": bool(expansion),
        "attend_to_expansion": bool(expansion) and value_of(expansion, "attend", bool, file, False),
        "skiplist_words": _skipped(modules, values, of_pylate, file),
    }


def _prefix(folder, of):
    """The text put before a text: PyLate's prefix, followed by the prompt."""
    prefix = value_of(folder.values, f"{of}_prefix", str, folder.file, "")
    return prefix + folder.prompts.get(of, "").removeprefix(prefix)


def _expansion(folder, has_settings):
    """How a query is expanded with masks, or None."""
    first, values, file = folder.first, folder.values, folder.file
    if "query_expansion" not in first and "query_expansion" not in values and has_settings:
        if not value_of(values, "do_query_expansion", bool, file, True):
            return None
        attend = value_of(values, "attend_to_mask_tokens", bool, file, False)  # the older name
        attend = value_of(values, "attend_to_expansion_tokens", bool, file, attend)
        return {"length": value_of(values, "query_length", int, file) or QUERY_LENGTH, "attend": attend}
    where, settings = (folder.first_file, first) if "query_expansion" in first else (file, values)
    expansion = value_of(settings, "query_expansion", dict | Literal[False], where)
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


# The class in config.json of Stanford's ColBERT.
ARCHITECTURE = "HF_ColBERT"

METADATA = "artifact.metadata"

# The name of the projection's weights.
PROJECTION = "linear.weight"

# ColBERT's defaults, but for the length of documents. Squared distances of unit vectors rank like dot products.
STANFORD_DEFAULTS = {"query_maxlen": 32, "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
STANFORD_ALLOWED = {"similarity": ("cosine", "l2"), "interaction": ("colbert",)}


def is_stanford_colbert(folder: Path) -> bool:
    """Whether a folder was saved by Stanford's ColBERT."""
    file = folder / "config.json"
    return ARCHITECTURE in value_of(json_object(file), "architectures", list[str], file, ())


def stanford_settings(folder: Path) -> dict[str, Any]:
    """The settings of a `LateInteractionEmbedder` for a Stanford ColBERT folder.

    Queries are always expanded with masks, and vectors normalised to length 1.

    Args:
        folder: a folder with the config and weights of the encoder, `linear.weight` among them, and artifact.metadata (JSON).

    Raises:
        ValueError: the projection is missing or of another shape, or a setting is not supported.

    Reference: Santhanam et al., 2022, section 3.1 (https://arxiv.org/abs/2112.01488).
    """
    file = folder / METADATA
    values = json_object(file)
    values = {**STANFORD_DEFAULTS, **{name: value for name, value in values.items() if value is not None}}
    for name, allowed in STANFORD_ALLOWED.items():
        if values.get(name, allowed[0]) not in allowed:
            raise ValueError(f"{file} must have {name} {' or '.join(allowed)}; got {values[name]!r:.80}.")
    query_prefix, document_prefix = (f"{value_of(values, name, str, file)} " for name in ("query_token_id", "doc_token_id"))
    return {
        "modules": (DenseModule(_projection(folder, value_of(values, "dim", int, file)), None, "linear"), UnitModule()),
        "query_len": value_of(values, "query_maxlen", int, file),
        # Without a length, documents are cut at the maximum of the model, which the embedder knows.
        "document_len": value_of(values, "doc_maxlen", int, file) or limit("max_position_embeddings"),
        "query_prefix": query_prefix,
        "document_prefix": document_prefix,
        "query_expansion": True,
        "attend_to_expansion": value_of(values, "attend_to_mask_tokens", bool, file, False),
        "skiplist_words": list(string.punctuation) if value_of(values, "mask_punctuation", bool, file, True) else [],
    }


def _projection(folder, width):
    """The kernel of the dense layer, `(hidden, width)`."""
    source = find_checkpoint(folder).source
    if PROJECTION not in source.names:
        raise ValueError(f"{folder} must have weights named {PROJECTION}, the projection of ColBERT; they are missing.")
    kernel = source.read(PROJECTION).astype("float32").T
    if kernel.ndim != 2 or kernel.shape[1] != (width or kernel.shape[1]):
        raise ValueError(f"{folder} must have {PROJECTION} with {width} rows, the dim in {METADATA}; got {kernel.shape[::-1]}.")
    return kernel
