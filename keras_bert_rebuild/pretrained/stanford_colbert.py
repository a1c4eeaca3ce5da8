"""A Stanford ColBERT folder: encoder and projection in one file of weights, and a settings file next to it."""

import string
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.limits import limit, value_of
from keras_bert_rebuild.files.reading import json_object
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule, UnitModule

# The class in config.json.
ARCHITECTURE = "HF_ColBERT"

SETTINGS = "artifact.metadata"

# The name of the projection's weights.
PROJECTION = "linear.weight"

# ColBERT's defaults, but for the length of documents. Squared distances of unit vectors rank like dot products.
DEFAULTS = {"query_maxlen": 32, "query_token_id": "[unused0]", "doc_token_id": "[unused1]"}
ALLOWED = {"similarity": ("cosine", "l2"), "interaction": ("colbert",)}


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
    file = folder / SETTINGS
    values = json_object(file)
    values = {**DEFAULTS, **{name: value for name, value in values.items() if value is not None}}
    for name, allowed in ALLOWED.items():
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
        raise ValueError(f"{folder} must have {PROJECTION} with {width} rows, the dim in {SETTINGS}; got {kernel.shape[::-1]}.")
    return kernel
