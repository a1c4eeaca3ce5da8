"""Retrieval folders: which of four kinds a sentence-transformers folder is, and the settings of the task for it."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.limits import value_of
from keras_bert_rebuild.pretrained.dense_folder import dense_settings
from keras_bert_rebuild.pretrained.late_interaction_folder import late_interaction_settings
from keras_bert_rebuild.pretrained.reranker_folder import is_reranker, reranker_settings
from keras_bert_rebuild.pretrained.sentence_transformers_folder import MODULES, SETTINGS, folder_modules, folder_settings
from keras_bert_rebuild.pretrained.sparse_folder import sparse_settings
from keras_bert_rebuild.pretrained.stanford_colbert import is_stanford_colbert, stanford_settings

# The class in sentence-transformers or PyLate to the kind of the task.
MODEL_TYPES = {
    "SentenceTransformer": "embedding",
    "SparseEncoder": "sparse_embedding",
    "MultiVectorEncoder": "late_interaction",
    "ColBERT": "late_interaction",
    "CrossEncoder": "reranking",
}

# Modules that only folders of one kind have, and the kind of the task.
OF_MODULES = {
    "SpladePooling": "sparse_embedding",
    "MultiVectorMask": "late_interaction",
    "Pooling": "embedding",
}

# Kind of a task to a function of the folder and its modules that returns the settings and whether texts are lower-cased.
READERS = {
    "embedding": dense_settings,
    "sparse_embedding": sparse_settings,
    "late_interaction": late_interaction_settings,
    "reranking": reranker_settings,
}


@dataclass(frozen=True)
class RetrieverFolder:
    """A folder of sentence-transformers (versions 2 to 6), PyLate or Stanford's ColBERT."""

    kind: str
    """The kind of the task: "embedding", "sparse_embedding", "late_interaction" or "reranking"."""

    folder: Path
    """The folder of the weights and tokenizer."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Arguments of the task's class, as determined by the folder."""

    lower_case: bool = False
    """Whether texts are lower-cased whatever the tokenizer's settings."""


def read_retriever_folder(path: str | os.PathLike[str]) -> RetrieverFolder | None:
    """Read modules.json and the modules it lists, or recognise a cross-encoder or ColBERT by other files.

    Args:
        path: the folder.

    Returns:
        A `RetrieverFolder`; None for any other path, and for a cross-encoder with several labels, which is a classifier.

    Raises:
        ValueError: names the module or setting that is not supported.
    """
    path = Path(path)
    if not (path / MODULES).is_file():
        if is_stanford_colbert(path):
            return RetrieverFolder("late_interaction", path, stanford_settings(path))
        return _read("reranking", path, []) if is_reranker(path) else None
    modules = folder_modules(path)
    if not modules:
        raise ValueError(f"{path / MODULES} must name at least one module; got none.")
    kind = _kind(path, [module.kind for module in modules])
    if kind == "reranking" and not is_reranker(path, modules[0].folder):
        return None
    return _read(kind, path, modules)


def _read(kind, path, modules):
    settings, lower_case = READERS[kind](path, modules)
    settings = {name: value for name, value in settings.items() if value is not None}
    return RetrieverFolder(kind, modules[0].folder if modules else path, settings, lower_case)


def _kind(path, kinds):
    model_type = value_of(folder_settings(path), "model_type", str, path / SETTINGS)
    if model_type is not None and model_type not in MODEL_TYPES:
        raise ValueError(f"{path / SETTINGS} must have a model_type among {', '.join(MODEL_TYPES)}; got {model_type!r:.80}.")
    if model_type is not None:
        return MODEL_TYPES[model_type]
    found = next((OF_MODULES[kind] for kind in kinds if kind in OF_MODULES), None)
    return found or ("reranking" if kinds == ["Transformer"] else "embedding")
