"""Additional files, name to bytes, that make a Hugging Face folder a model of sentence-transformers, versions 2 to 6."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert_rebuild.files.reading import json_bytes
from keras_bert_rebuild.pretrained.sentence_modules import TOKENS, UnitModule, kind_of, module_files, torch_name
from keras_bert_rebuild.pretrained.sentence_transformers_folder import (
    FIRST_SETTINGS,
    MODULES,
    POOLING_NAMES,
    RERANKER_ACTIVATIONS,
    SETTINGS,
    SPARSE_ACTIVATIONS,
)

# The keys of poolings that all versions support.
FIRST_KEYS = 4


def dense_files(
    hidden_size: int,
    max_len: int,
    *,
    poolings: Sequence[str] = ("mean",),
    modules: Iterable[Any] = (),
    normalize: bool = True,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
    include_prompt: bool = True,
    truncate_dim: int | None = None,
    measure: str = "cosine",
) -> dict[str, bytes]:
    """The files of a `SentenceTransformer`.

    Args:
        hidden_size: width of token vectors.
        max_len: maximum number of tokens of a text.
        poolings, normalize, prompts, default_prompt, include_prompt, truncate_dim, measure: see `SentenceEmbedder`.
        modules: `DenseModule`, `ResidualModule`, `NormModule` or `UnitModule`.
    """
    named = [("Pooling", _pooling_files(hidden_size, poolings, include_prompt))]
    named += [(kind_of(module), module_files(module)) for module in (*modules, *([UnitModule()] if normalize else []))]
    settings = {"similarity_fn_name": measure, **({} if truncate_dim is None else {"truncate_dim": truncate_dim})}
    return _folder_files("SentenceTransformer", named, max_len, {}, settings, prompts, default_prompt)


def reranker_files(activation: str, max_len: int) -> dict[str, bytes]:
    """The files of a `CrossEncoder` besides those of its classifier; versions before 5.4 ignore them and use the sigmoid.

    Args:
        activation: the activation of a `Reranker`.
        max_len: maximum number of tokens of a query and a text together.
    """
    settings = {"activation_fn": torch_name(_name_of(activation, RERANKER_ACTIVATIONS))}
    return _folder_files("CrossEncoder", [], max_len, {"transformer_task": "sequence-classification"}, settings)


def sparse_files(
    words: int,
    max_len: int,
    *,
    pooling: str,
    activation: str,
    prompts: Mapping[str, str] | None,
    default_prompt: str | None,
    max_active: int | None,
) -> dict[str, bytes]:
    """The files of a `SparseEncoder`.

    Args:
        words: vocabulary size.
        max_len: maximum number of tokens of a text.
        pooling, activation, prompts, default_prompt, max_active: see `SparseEmbedder`.
    """
    name = _name_of(activation, SPARSE_ACTIVATIONS)
    pooled = {"pooling_strategy": pooling, "activation_function": name, "word_embedding_dimension": words}
    settings = {"similarity_fn_name": "dot", **({} if max_active is None else {"max_active_dims": max_active})}
    named, first = [("SpladePooling", {"config.json": json_bytes(pooled)})], {"transformer_task": "fill-mask"}
    return _folder_files("SparseEncoder", named, max_len, first, settings, prompts, default_prompt)


def late_interaction_files(
    modules: Iterable[Any],
    *,
    query_len: int,
    document_len: int,
    query_prefix: str,
    document_prefix: str,
    query_expansion: bool,
    attend_to_expansion: bool,
    skiplist_words: Sequence[str],
) -> dict[str, bytes]:
    """The files of a `MultiVectorEncoder`.

    Args:
        modules: `DenseModule`, `ResidualModule`, `NormModule` or `UnitModule`.
        query_len, document_len, query_prefix, document_prefix, query_expansion, attend_to_expansion, skiplist_words: see
            `LateInteractionEmbedder`.
    """
    named = [(kind_of(module), module_files(module, TOKENS)) for module in modules]
    mask = {"skiplist_words": list(skiplist_words), "skiplist_tasks": ["document"]}
    named.append(("MultiVectorMask", {"config.json": json_bytes(mask)}))
    prompts = {"query": query_prefix, "document": document_prefix}
    prefixes = {f"{of}_prefix": prefix for of, prefix in prompts.items() if prefix}
    expansion = {"strategy": "fixed", "attend": attend_to_expansion, "length": query_len} if query_expansion else None
    lengths = {"document_length": document_len, **({} if query_expansion else {"query_length": query_len})}
    first, settings = {"query_expansion": expansion, **lengths}, {"similarity_fn_name": "maxsim", **prefixes}
    return _folder_files("MultiVectorEncoder", named, max(query_len, document_len), first, settings, prompts)


# The import path of modules up to version 5, which version 6 also accepts; of all others it is `models`.
_PACKAGES = {"SpladePooling": "sparse_encoder.models", "MultiVectorMask": "multi_vector_encoder.modules"}


def _folder_files(
    model_type: str,
    modules: Iterable[tuple[str, Mapping[str, bytes]]],
    max_len: int,
    first: Mapping[str, Any],
    settings: Mapping[str, Any],
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
) -> dict[str, bytes]:
    """modules.json with the files of the modules, and the settings of the folder and of its first module, the `Transformer`.

    Args:
        model_type: the class of sentence-transformers.
        modules: class and files of every further module, in order.
        max_len: maximum number of tokens of a text, `max_seq_length` in all versions.
        first: other settings of the first module, which is the folder itself.
        settings: other settings of the class.
        prompts, default_prompt: texts by name, and the name of the default one.
    """
    files: dict[str, bytes] = {}
    listed = []
    for index, (kind, content) in enumerate([("Transformer", {}), *modules]):
        folder = f"{index}_{kind}" if index else ""
        path = f"sentence_transformers.{_PACKAGES.get(kind, 'models')}.{kind}"
        listed.append({"idx": index, "name": str(index), "path": folder, "type": path})
        files |= {f"{folder}/{name}": data for name, data in content.items()}
    named = {"query": "", "document": "", **(prompts or {})}
    values = {"model_type": model_type, "prompts": named, "default_prompt_name": default_prompt, **settings}
    limits = {"max_seq_length": max_len, "do_lower_case": False, **first}
    return {MODULES: json_bytes(listed), SETTINGS: json_bytes(values), **files, FIRST_SETTINGS[0]: json_bytes(limits)}


def _pooling_files(hidden_size, poolings, include_prompt):
    """The settings of a `Pooling`, with the keys of old versions where possible, which version 6 also reads."""
    values: dict[str, Any] = {"word_embedding_dimension": hidden_size}
    for number, (name, (key, _)) in enumerate(POOLING_NAMES.items()):
        if number < FIRST_KEYS or name in poolings:
            values[key] = name in poolings
    if list(poolings) != [name for name in POOLING_NAMES if name in poolings]:  # an order that only version 6 supports
        values = {"embedding_dimension": hidden_size, "pooling_mode": [POOLING_NAMES[name][1] for name in poolings]}
    return {"config.json": json_bytes({**values, **({} if include_prompt else {"include_prompt": False})})}


def _name_of(activation, names):
    """The name of one of our activations in the folder."""
    return next(theirs for theirs, ours in names.items() if ours == activation)
