"""Additional files that make a Hugging Face folder a sentence-transformers reranker, sparse or late-interaction model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert_rebuild.pretrained.reranker_folder import ACTIVATIONS as OF_RERANKERS
from keras_bert_rebuild.pretrained.sentence_files import (
    TOKENS,
    folder_files,
    json_bytes,
    kind_of,
    module_files,
    torch_name,
    transformer_files,
)
from keras_bert_rebuild.pretrained.sparse_folder import ACTIVATIONS as OF_SPARSE


def reranker_files(activation: str, max_len: int) -> dict[str, bytes]:
    """The files of a `CrossEncoder` besides those of its classifier; versions before 5.4 ignore them and use the sigmoid.

    Args:
        activation: the activation of a `Reranker`.
        max_len: maximum number of tokens of a query and a text together.
    """
    kind = next(theirs for theirs, ours in OF_RERANKERS.items() if ours == activation)
    return {
        **folder_files("CrossEncoder", [("Transformer", "", {})], None, None, {"activation_fn": torch_name(kind)}),
        **transformer_files(max_len, transformer_task="sequence-classification"),
    }


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
    kind = next(theirs for theirs, ours in OF_SPARSE.items() if ours == activation)
    pooled = {"pooling_strategy": pooling, "activation_function": kind, "word_embedding_dimension": words}
    modules: list[Any] = [("Transformer", "", {}), ("SpladePooling", "1_SpladePooling", {"config.json": json_bytes(pooled)})]
    settings = {"similarity_fn_name": "dot", **({} if max_active is None else {"max_active_dims": max_active})}
    return {
        **folder_files("SparseEncoder", modules, prompts, default_prompt, settings),
        **transformer_files(max_len, transformer_task="fill-mask"),
    }


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
    later = list(modules)
    named: list[Any] = [("Transformer", "", {})]
    named += [(kind_of(module), f"{i}_{kind_of(module)}", module_files(module, TOKENS)) for i, module in enumerate(later, 1)]
    mask = {"skiplist_words": list(skiplist_words), "skiplist_tasks": ["document"]}
    named.append(("MultiVectorMask", f"{len(named)}_MultiVectorMask", {"config.json": json_bytes(mask)}))
    expansion = {"strategy": "fixed", "attend": attend_to_expansion, "length": query_len} if query_expansion else None
    prefixes = {"query_prefix": query_prefix, "document_prefix": document_prefix}
    settings = {"similarity_fn_name": "maxsim", **{name: prefix for name, prefix in prefixes.items() if prefix}}
    lengths = {"document_length": document_len, **({} if query_expansion else {"query_length": query_len})}
    return {
        **folder_files("MultiVectorEncoder", named, {"query": query_prefix, "document": document_prefix}, None, settings),
        **transformer_files(max(query_len, document_len), query_expansion=expansion, **lengths),
    }
