"""Retrieval folders: which of four kinds a sentence-transformers folder is, and the settings of the task for it."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert_rebuild.files.reading import value_of
from keras_bert_rebuild.pretrained.config_files import read_json
from keras_bert_rebuild.pretrained.late_interaction_folder import is_stanford_colbert, late_interaction_settings, stanford_settings
from keras_bert_rebuild.pretrained.sentence_modules import UnitModule, read_module
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    MODULES,
    POOLING_NAMES,
    RERANKER_ACTIVATIONS,
    SETTINGS,
    SPARSE_ACTIVATIONS,
    Module,
    SentenceFolder,
    folder_modules,
    folder_settings,
)
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

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

# Name of a similarity measure of text vectors in the folder to ours.
MEASURES = {None: "cosine", "cosine": "cosine", "dot": "dot", "dot_product": "dot"}

SPARSE_POOLINGS = ("max", "sum")

# The key of a reranker's activation in config.json in versions 4 and 5, and before.
OLD_KEY = "sbert_ce_default_activation_function"


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
        return _read("reranking", path, []) if _is_reranker(path) else None
    modules = folder_modules(path)
    if not modules:
        raise ValueError(f"{path / MODULES} must name at least one module; got none.")
    kind = _kind(path, [module.kind for module in modules])
    if kind == "reranking" and not _is_reranker(path, modules[0].folder):
        return None
    return _read(kind, path, modules)


def _read(kind, path, modules):
    folder, settings = READERS[kind](path, modules)
    settings = {name: value for name, value in settings.items() if value is not None}
    return RetrieverFolder(kind, folder.folder, settings, bool(folder.first.get("do_lower_case")))


def _kind(path, kinds):
    model_type = value_of(folder_settings(path), "model_type", str, path / SETTINGS)
    if model_type is not None and model_type not in MODEL_TYPES:
        raise ValueError(f"{path / SETTINGS} must have a model_type among {', '.join(MODEL_TYPES)}; got {model_type!r:.80}.")
    if model_type is not None:
        return MODEL_TYPES[model_type]
    kind_of_module = next((OF_MODULES[kind] for kind in kinds if kind in OF_MODULES), None)
    return kind_of_module or ("reranking" if kinds == ["Transformer"] else "embedding")


def _is_reranker(path, folder=None):
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


def _embedding_settings(path: Path, modules: list[Module]) -> tuple[SentenceFolder, dict[str, Any]]:
    """The `SentenceFolder` and the settings of a `SentenceEmbedder`."""
    kinds = [module.kind for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ValueError(f"{path / MODULES} must name the modules Transformer and Pooling first; got {', '.join(kinds)}.")
    later = [read_module(module.kind, module.folder) for module in modules[2:]]
    later = [module for module in later if module is not None]
    normalize = later[-1:] == [UnitModule()]
    folder = SentenceFolder(path, modules, (None, "feature-extraction"), ("query_expansion",))
    output = folder.first.get("module_output_name")
    if output not in (None, "token_embeddings"):
        raise ValueError(f"{folder.folder} must have module_output_name token_embeddings; got {output!r:.80}.")
    poolings, include_prompt = _poolings(modules[1].folder / "config.json")
    measure = value_of(folder.values, "similarity_fn_name", str, folder.file)
    cut = value_of(folder.values, "truncate_dim", int, folder.file)
    if measure not in MEASURES:
        raise ValueError(f"{folder.file} must have similarity_fn_name cosine or dot; got {measure!r:.80}.")
    if cut is not None and cut < 1:
        raise ValueError(f"{folder.file} must have a number of at least 1 as truncate_dim; got {cut!r:.80}.")
    return folder, {
        "poolings": poolings,
        "modules": tuple(later[:-1] if normalize else later),
        "normalize": normalize,
        "prompts": folder.prompts,
        "default_prompt": folder.default_prompt,
        "include_prompt": include_prompt,
        "truncate_dim": cut,
        "measure": MEASURES[measure],
        "truncate": True,
        "max_len": folder.max_len,
    }


def _poolings(file):
    """The poolings of a `Pooling` module in order, and whether the tokens of a prompt are pooled, too."""
    values = read_json(file, "the pooling of sentence-transformers")
    ours = {theirs: name for name, (_, theirs) in POOLING_NAMES.items()}
    if "pooling_mode" in values:
        mode = value_of(values, "pooling_mode", str | list[str], file, [])
        named = mode if isinstance(mode, list) else [mode]
    else:
        named = [theirs for key, theirs in POOLING_NAMES.values() if value_of(values, key, bool, file)] or ["mean"]
    if not named or len(set(named)) < len(named) or not all(name in ours for name in named):
        raise ValueError(f"{file} must choose some of {', '.join(ours)}, each once; got {', '.join(named) or 'none'}.")
    return tuple(ours[name] for name in named), value_of(values, "include_prompt", bool, file, True)


def _sparse_settings(path: Path, modules: list[Module]) -> tuple[SentenceFolder, dict[str, Any]]:
    """The `SentenceFolder` and the settings of a `SparseEmbedder` (SPLADE)."""
    kinds = [module.kind for module in modules]
    if kinds not in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"]):
        raise ValueError(f"{path / MODULES} must name the modules Transformer and SpladePooling; got {', '.join(kinds)}.")
    # Before version 5.4 the first module was a class for masked language models only.
    folder = SentenceFolder(path, modules, ("fill-mask",) if kinds[0] == "Transformer" else (None, "fill-mask"))
    file = modules[1].folder / "config.json"
    pooled = read_json(file, "the pooling of sentence-transformers")
    pooling = value_of(pooled, "pooling_strategy", str, file, "max")
    activation = value_of(pooled, "activation_function", str, file, "relu")
    if pooling not in SPARSE_POOLINGS or activation not in SPARSE_ACTIVATIONS:
        raise ValueError(
            f"{file} must have a pooling_strategy of {' or '.join(SPARSE_POOLINGS)} and an activation_function of "
            f"{' or '.join(SPARSE_ACTIVATIONS)}; got {pooling!r:.80} and {activation!r:.80}."
        )
    measure = folder.values.get("similarity_fn_name")
    if measure not in (None, "dot"):
        raise ValueError(f"{folder.file} must have similarity_fn_name dot; got {measure!r:.80}.")
    return folder, {
        "pooling": pooling,
        "activation": SPARSE_ACTIVATIONS[activation],
        "prompts": folder.prompts,
        "default_prompt": folder.default_prompt,
        "max_active": value_of(folder.values, "max_active_dims", int, folder.file),
        "truncate": True,
        "max_len": folder.max_len,
    }


def _reranking_settings(path: Path, modules: list[Module]) -> tuple[SentenceFolder, dict[str, Any]]:
    """The `SentenceFolder` and the settings of a `Reranker`."""
    kinds = [module.kind for module in modules]
    if modules and kinds != ["Transformer"]:
        raise ValueError(f"{path / MODULES} must name the module Transformer alone; got {', '.join(kinds)}.")
    folder = SentenceFolder(path, modules, ("sequence-classification",))
    prompt = folder.prompts.get(folder.default_prompt)
    if prompt:
        raise ValueError(f"{folder.file} must have no default prompt, since a Reranker has none; got {prompt!r:.80}.")
    activation = _reranker_activation(folder.values, folder.folder / "config.json", folder.file)
    return folder, {"activation": activation, "truncate": True, "max_len": folder.max_len}


def _reranker_activation(values, config, settings):
    """The activation by the keys of version 5.4 and later, of version 4, or of version 3; by default the sigmoid of one label."""
    of_config = read_json(config, "a config")
    of_library = value_of(of_config, "sentence_transformers", dict, config, {})
    spellings = ((values, "activation_fn", settings), (of_library, "activation_fn", config), (of_config, OLD_KEY, config))
    names = ((value_of(of, key, str, where), where) for of, key, where in spellings)
    name, where = next((pair for pair in names if pair[0]), ("torch.nn.modules.activation.Sigmoid", config))
    kind = name.rsplit(".", 1)[-1]
    if not name.startswith("torch.nn.") or kind not in RERANKER_ACTIVATIONS:
        among = ", ".join(RERANKER_ACTIVATIONS)
        raise ValueError(f"{where} must have an activation_fn of torch.nn among {among}; got {name!r:.80}.")
    return RERANKER_ACTIVATIONS[kind]


# Kind of a task to a function of the folder and its modules that returns the `SentenceFolder` and the settings of the task.
READERS = {
    "embedding": _embedding_settings,
    "sparse_embedding": _sparse_settings,
    "late_interaction": late_interaction_settings,
    "reranking": _reranking_settings,
}


def lower_cased(tokenizer: BatchTokenizer, folder: Path) -> BatchTokenizer:
    """The tokenizer of a folder that lower-cases texts, or, if it does not lower-case, a copy that does.

    Args:
        tokenizer: the tokenizer.
        folder: the folder, for the error.

    Raises:
        ValueError: this kind of tokenizer cannot lower-case.
    """
    if not getattr(tokenizer, "cased", True) or getattr(tokenizer, "lower", False):
        return tokenizer
    if isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.with_options(cased=False, strip_accents=tokenizer.settings.strips)  # keep the setting of accents
    raise ValueError(
        f"{folder} has do_lower_case true; expected a tokenizer that can lower-case, but a {type(tokenizer).__name__} cannot."
    )
