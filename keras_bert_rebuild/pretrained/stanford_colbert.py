"""A Stanford ColBERT folder: encoder and projection in one file of weights, and a settings file next to it."""

import string
from pathlib import Path
from typing import Any

from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule, UnitModule
from keras_bert_rebuild.pretrained.sentence_transformers_folder import whole_number

# The class in config.json.
ARCHITECTURE = "HF_ColBERT"

SETTINGS = "artifact.metadata"

# The name of the projection's weights.
PROJECTION = "linear.weight"

# ColBERT's defaults. Squared distances of unit vectors rank like dot products.
DEFAULTS = {"query_maxlen": 32, "doc_maxlen": 220, "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
ALLOWED = {"similarity": ("cosine", "l2"), "interaction": ("colbert",)}


def is_stanford_colbert(folder: Path) -> bool:
    """Whether a folder was saved by Stanford's ColBERT."""
    file = folder / "config.json"
    return file.is_file() and ARCHITECTURE in (read_json(file, "a config").get("architectures") or ())


def stanford_settings(folder: Path) -> dict[str, Any]:
    """The settings of a `LateInteractionEmbedder` for a Stanford ColBERT folder.

    Queries are always expanded with masks, and vectors normalised to length 1.

    Args:
        folder: a folder with the config and weights of the encoder, `linear.weight` among them, and artifact.metadata (JSON).

    Raises:
        ValueError: the projection is missing or of another shape, or a setting is not supported.

    Reference: Santhanam et al., 2022, section 3.1 (https://arxiv.org/abs/2112.01488).
    """
    file = folder / SETTINGS
    values = read_json(file, "the settings of ColBERT") if file.is_file() else {}
    values = {**DEFAULTS, **{name: value for name, value in values.items() if value is not None}}
    for name, allowed in ALLOWED.items():
        if values.get(name, allowed[0]) not in allowed:
            raise ValueError(f"{file} must have {name} {' or '.join(allowed)}; got {values[name]!r:.80}.")
    markers = [values[name] for name in ("query_token_id", "doc_token_id")]
    if not all(isinstance(marker, str) for marker in markers):
        raise ValueError(f"{file} must have tokens as query_token_id and doc_token_id; got {markers!r:.80}.")
    query_prefix, document_prefix = (f"{marker} " for marker in markers)
    return {
        "modules": (DenseModule(_projection(folder, whole_number(values, "dim", file)), None, "linear"), UnitModule()),
        "query_len": whole_number(values, "query_maxlen", file),
        "document_len": whole_number(values, "doc_maxlen", file),
        "query_prefix": query_prefix,
        "document_prefix": document_prefix,
        "query_expansion": True,
        "attend_to_expansion": bool(values.get("attend_to_mask_tokens", False)),
        "skiplist_words": list(string.punctuation) if values.get("mask_punctuation", True) else [],
    }


def _projection(folder, width):
    """The kernel of the dense layer, `(hidden, width)`."""
    source = find_checkpoint(folder).source
    if PROJECTION not in source.names:
        raise ValueError(f"{folder} must have weights named {PROJECTION}, the projection of ColBERT; they are missing.")
    kernel = source.read(PROJECTION).astype("float32").T
    if kernel.ndim != 2 or kernel.shape[1] != (width or kernel.shape[1]):
        raise ValueError(f"{folder} must have {PROJECTION} with {width} rows, the dim in {SETTINGS}; got {kernel.shape[::-1]}.")
    return kernel
