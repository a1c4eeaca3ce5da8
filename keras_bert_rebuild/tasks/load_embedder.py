"""Load any checkpoint as a `SentenceEmbedder`, with the settings of its folder or a pooling of the last block."""

import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.pretrained.retriever_folder import read_retriever_folder
from keras_bert_rebuild.tasks.saved_task import load_task, saved_kind
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer


def load_embedder(
    path: str | os.PathLike[str],
    tokenizer: Any = None,
    *,
    poolings: tuple[str, ...] | None = None,
    normalize: bool | None = None,
    max_len: int | None = None,
    dtype: str | None = None,
) -> SentenceEmbedder:
    """Load a model that computes a vector for a text.

    Args:
        path: a folder that a `SentenceEmbedder` saved or one of sentence-transformers, whose settings are used; or any checkpoint
            as for `from_pretrained`, whose last block is pooled.
        tokenizer: None for the one next to the weights; otherwise as for `task_tokenizer`.
        poolings: None for the folder's, by default the mean.
        normalize: None for the folder's, by default False.
        max_len: maximum number of tokens; longer texts are truncated. None for the folder's, by default the model's.
        dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.

    Raises:
        ValueError: the model does not compute a vector for a text, or the folder has modules that require other poolings.
    """
    path = Path(path)
    retriever = read_retriever_folder(path) if path.is_dir() else None
    if retriever is not None and retriever.kind != "embedding":
        raise ValueError(f"{path} must be a model with a vector for each text; it is for {retriever.kind.replace('_', ' ')}.")
    if poolings and retriever is not None and retriever.settings.get("modules"):
        raise ValueError(f"poolings must be left out for {path}, whose own pooling has layers after it; got {', '.join(poolings)}.")
    given = {"poolings": poolings, "normalize": normalize, "max_len": max_len, "truncate": True if max_len else None}
    given = {name: value for name, value in given.items() if value is not None}
    if retriever is not None or saved_kind(path) == "embedding":
        return load_task(path, "embedding", tokenizer, dtype=dtype, **given)
    model = from_pretrained(path, heads=(), dtype=dtype)
    tokenizer = load_tokenizer(path) if tokenizer is None else tokenizer
    settings = {"normalize": False, "max_len": model.config.max_length, "truncate": True, **given}
    return SentenceEmbedder(model, tokenizer, **settings)
