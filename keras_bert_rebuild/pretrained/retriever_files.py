"""The files that make a Hugging Face folder a sparse encoder, a cross-encoder or a multi-vector encoder of sentence-transformers.

Name to bytes, to be written next to weights, config and tokenizer, as `dense_files` for vectors of texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert_rebuild.pretrained.reranker_folder import ACTIVATIONS as OF_SCORES
from keras_bert_rebuild.pretrained.sentence_files import (
    TOKENS,
    folder_files,
    json_bytes,
    kind_of,
    module_files,
    torch_name,
    transformer_files,
)
from keras_bert_rebuild.pretrained.sparse_folder import ACTIVATIONS as OF_WORDS


def sparse_files(
    max_len: int,
    *,
    pooling: str = "max",
    activation: str = "log1p_relu",
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
) -> dict[str, bytes]:
    """The files of a `SparseEncoder`, for versions 5 and 6.

    Args:
        max_len: maximum number of tokens in a text.
        pooling, activation, prompts, default_prompt: see `SparseEmbedder`.
    """
    theirs = next(name for name, ours in OF_WORDS.items() if ours == activation)
    pooled = {"config.json": json_bytes({"pooling_strategy": pooling, "activation_function": theirs})}
    modules = [("Transformer", "", {}), ("SpladePooling", "1_SpladePooling", pooled)]
    return {
        **folder_files("SparseEncoder", modules, prompts, default_prompt, {"similarity_fn_name": "dot"}),
        **transformer_files(max_len, transformer_task="fill-mask"),
    }


def reranker_files(max_len: int, *, activation: str = "sigmoid") -> dict[str, bytes]:
    """The files of a `CrossEncoder` of version 6; versions before 5.4 read the Hugging Face folder and take the sigmoid.

    Args:
        max_len: maximum number of tokens in a pair.
        activation: see `Reranker`.
    """
    name = next(theirs for theirs, ours in OF_SCORES.items() if ours == activation)
    return {
        **folder_files("CrossEncoder", [("Transformer", "", {})], None, None, {"activation_fn": torch_name(name)}),
        **transformer_files(max_len, transformer_task="sequence-classification"),
    }


def late_interaction_files(
    *,
    query_len: int,
    document_len: int,
    modules: Iterable[Any] = (),
    query_prefix: str = "",
    document_prefix: str = "",
    query_expansion: bool = True,
    attend_to_expansion: bool = False,
    skiplist_words: Sequence[str] = (),
) -> dict[str, bytes]:
    """The files of a `MultiVectorEncoder` of version 6.

    Args:
        query_len, document_len: maximum numbers of tokens.
        modules: `DenseModule`, `NormModule` or `UnitModule`, of the vectors of tokens.
        query_prefix, document_prefix: what is put before texts.
        query_expansion: whether queries are filled up with masks to `query_len` tokens.
        attend_to_expansion: whether the tokens of a query attend to these masks.
        skiplist_words: tokens whose vectors are left out of documents.
    """
    named = [("Transformer", "", {})]
    named += [(kind_of(module), f"{i}_{kind_of(module)}", module_files(module, TOKENS)) for i, module in enumerate(modules, 1)]
    skipped = {"skiplist_words": list(skiplist_words), "skiplist_tasks": ["document"], "keep_only_token_ids": None}
    named.append(("MultiVectorMask", f"{len(named)}_MultiVectorMask", {"config.json": json_bytes(skipped)}))
    expansion = {"strategy": "fixed", "attend": attend_to_expansion, "token": None, "length": query_len}
    queries = {"query_expansion": expansion} if query_expansion else {"query_length": query_len}
    prompts = {"query": query_prefix, "document": document_prefix}
    return {
        **folder_files("MultiVectorEncoder", named, prompts, None, {"similarity_fn_name": "maxsim"}),
        **transformer_files(None, document_length=document_len, **queries),
    }
