"""Folders that search: which of the four kinds a folder of sentence-transformers is, and the settings of the task for it."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert_rebuild.pretrained.dense_folder import dense_settings
from keras_bert_rebuild.pretrained.late_interaction_folder import late_interaction_settings
from keras_bert_rebuild.pretrained.reranker_folder import is_reranker, reranker_settings
from keras_bert_rebuild.pretrained.sentence_transformers_folder import MODULES, SETTINGS, folder_modules, folder_settings
from keras_bert_rebuild.pretrained.sparse_folder import sparse_settings
from keras_bert_rebuild.pretrained.stanford_colbert import is_stanford_colbert, stanford_settings

# The class in sentence-transformers or PyLate, and the kind of the task.
MODEL_TYPES = {
    "SentenceTransformer": "embedding",
    "SparseEncoder": "sparse_embedding",
    "MultiVectorEncoder": "late_interaction",
    "ColBERT": "late_interaction",
    "CrossEncoder": "reranking",
}

# The kind of task by a module that only its folders have.
OF_MODULES = {
    "SpladePooling": "sparse_embedding",
    "MultiVectorMask": "late_interaction",
    "Pooling": "embedding",
}

# The kind of a task, and the function of the folder and its modules that gives the settings and whether texts are lower-cased.
READERS = {
    "embedding": dense_settings,
    "sparse_embedding": sparse_settings,
    "late_interaction": late_interaction_settings,
    "reranking": reranker_settings,
}


@dataclass(frozen=True)
class RetrieverFolder:
    """A folder of sentence-transformers, of version 2 to 6, of PyLate or of Stanford's ColBERT."""

    kind: str
    """The kind of the task: "embedding", "sparse_embedding", "late_interaction" or "reranking"."""

    folder: Path
    """Where the weights and the tokenizer are."""

    settings: dict[str, Any] = field(default_factory=dict)
    """The arguments of the task's class that the folder decides."""

    lower_case: bool = False
    """Whether texts are lower-cased, whatever the settings of the tokenizer."""


def read_retriever_folder(path: str | os.PathLike[str]) -> RetrieverFolder | None:
    """Read what a folder computes: modules.json and the modules that it names, or the marks of a cross-encoder or a ColBERT.

    Args:
        path: the folder.

    Returns:
        A `RetrieverFolder`; None for any other folder or file, and for a cross-encoder of several labels, which is a classifier.

    Raises:
        ValueError: a module or a setting is not supported, by name.
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
    model_type = folder_settings(path).get("model_type")
    if model_type is not None and model_type not in MODEL_TYPES:
        raise ValueError(f"{path / SETTINGS} must have a model_type among {', '.join(MODEL_TYPES)}; got {model_type!r:.80}.")
    if model_type is not None:
        return MODEL_TYPES[model_type]
    found = next((OF_MODULES[kind] for kind in kinds if kind in OF_MODULES), None)
    return found or ("reranking" if kinds == ["Transformer"] else "embedding")
