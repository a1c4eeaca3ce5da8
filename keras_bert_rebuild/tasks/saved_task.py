"""A task as a folder: a Hugging Face folder, or a Keras file, and a file with the other settings."""

import inspect
import json
import os
from pathlib import Path
from typing import Any

from keras_bert_rebuild.config import HEADS
from keras_bert_rebuild.families import FAMILIES
from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.files.reading import check_values, json_object, value_of
from keras_bert_rebuild.pretrained.find_checkpoint import check_whole, find_checkpoint, located_model
from keras_bert_rebuild.pretrained.from_pretrained import from_pretrained
from keras_bert_rebuild.pretrained.retriever_folder import READERS as RETRIEVERS
from keras_bert_rebuild.pretrained.retriever_folder import lower_cased, read_retriever_folder
from keras_bert_rebuild.pretrained.save_pretrained import write_huggingface, write_keras
from keras_bert_rebuild.tasks.registry import setting_types, task_class, task_kinds
from keras_bert_rebuild.text.load_tokenizer import load_tokenizer

FILE = "task.json"


def save_task(task, path):
    """Save a task to a folder that `load_task` can read, and transformers too if it has models of this family.

    Args:
        task: a `Task`.
        path: the folder; it is written atomically.
    """
    from keras_bert_rebuild.training.lora import without_lora

    values = {"task": task.kind, **task.settings()}
    content = (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
    files = {**task.tokenizer_files, **task.further_files(), FILE: content}
    model = without_lora(task.model_to_save())
    write = write_huggingface if model.config.family in FAMILIES else write_keras
    write(model, path, files)


def load_task(
    path: str | os.PathLike[str],
    kind: str | None = None,
    tokenizer: Any = None,
    *,
    dtype: str | None = None,
    revision: str | None = None,
    **settings: Any,
) -> Any:
    """Load a fine-tuned model with its tokenizer.

    Args:
        path: a folder that `Task.save` wrote, one of sentence-transformers, PyLate or ColBERT that `read_retriever_folder` reads,
            or a Hugging Face folder whose model class has the head of a task; or the name of one on the Hugging Face hub.
        kind: the task, such as "classification"; None to infer it from task.json, the folder or the head.
        tokenizer: None for the one in the folder.
        dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.
        revision: of a name, as for `from_pretrained`.
        **settings: settings of the class that override task.json.

    Returns:
        A task, such as a `TextClassifier`.

    Raises:
        ValueError: the task cannot be determined, or the weights or the settings in task.json belong to another task.
    """
    path = Path(located_model(path, revision))
    file = path / FILE
    values = json_object(file)
    named = value_of(values, "task", str, file)
    retriever, modules = _retriever(path, kind or named), {}
    if retriever is not None:
        # Modules have weights, which task.json cannot hold.
        modules = {name: value for name, value in retriever.settings.items() if name == "modules"}
        path, values = retriever.folder, values or retriever.settings
    checkpoint = find_checkpoint(path)
    if checkpoint.config is None and not values:
        raise ValueError(f"expected a folder from Task.save or Hugging Face; {path} is a Keras model.")
    values.pop("task", None)
    own = named or (retriever.kind if retriever is not None else _kind_of(checkpoint))
    kind = kind or own
    if kind is None:
        check_whole(checkpoint)
        raise ValueError(
            f"expected a fine-tuned model, with a {FILE} or the head of a task; {path} has neither: fine-tune it, or in Python name"
            f" the kind of task, one of {', '.join(task_kinds())}."
        )
    if kind != own:
        values = {}
    where = file if file.is_file() else path
    try:
        cls = task_class(kind)
    except ValueError as error:
        raise (ValueError(f"{printable(file)}: {error}") if kind == named else error) from None
    _check_settings(values, cls, where)
    # The heads of a Keras model cannot be chosen.
    model = from_pretrained(path, heads=None if checkpoint.config is None else cls.heads, dtype=dtype)
    settings_of_files = cls.settings_of(model.config) if not values else {}
    if retriever is not None:
        settings_of_files = {**modules, **({} if file.is_file() else {"max_len": model.config.max_length})}
    if tokenizer is None and retriever is not None and retriever.lower_case:
        tokenizer = lower_cased(load_tokenizer(path), retriever.folder)
    try:
        task = cls.from_model(model, tokenizer, **{**settings_of_files, **values, **settings})
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        if not values or str(path) in str(error):  # the error is about the tokenizer's files
            raise
        note = f" with the given {', '.join(settings)}" if settings else ""
        raise ValueError(f"the {cls.__name__} in {printable(where)}{note}: {error}") from error
    return task


def saved_kind(path: str | os.PathLike[str]) -> str | None:
    """The kind of the task that a folder was saved by; None for any other folder or file."""
    file = Path(path) / FILE
    return value_of(json_object(file), "task", str, file)


def _retriever(path, kind):
    """The description of a sentence-transformers folder if it has this kind of task, or if the kind is None; otherwise None."""
    if not Path(path).is_dir() or kind not in (None, *RETRIEVERS):
        return None
    retriever = read_retriever_folder(path)
    return retriever if retriever is None or kind in (None, retriever.kind) else None


def _check_settings(values, cls, file):
    types = setting_types(cls)
    names, unknown = list(types), [name for name in values if name not in types]
    if unknown:
        raise ValueError(f"{file} must have settings of {cls.__name__}, some of {', '.join(names)}; got {', '.join(unknown)}.")
    check_values(values, {name: kind for name, kind in types.items() if kind is not inspect.Parameter.empty}, file)


def _kind_of(checkpoint):
    heads = tuple(head for head in HEADS if head in (checkpoint.heads or ()))
    named = (kind for kind in task_kinds() if task_class(kind).heads and task_class(kind).named_by_heads)
    return next((kind for kind in named if set(task_class(kind).heads) <= set(heads)), None)


def load_embedder(
    path: str | os.PathLike[str],
    tokenizer: Any = None,
    *,
    poolings: tuple[str, ...] | None = None,
    normalize: bool | None = None,
    max_len: int | None = None,
    dtype: str | None = None,
    revision: str | None = None,
) -> Any:
    """Load any checkpoint as a `SentenceEmbedder`, with the settings of its folder or a pooling of the last block.

    Args:
        path: a folder that a `SentenceEmbedder` saved or one of sentence-transformers, whose settings are used; or any checkpoint
            as for `from_pretrained`, whose last block is pooled; or the name of either on the Hugging Face hub.
        tokenizer: None for the one next to the weights; otherwise as for `task_tokenizer`.
        poolings: None for the folder's, by default the mean.
        normalize: None for the folder's, by default False.
        max_len: maximum number of tokens; longer texts are truncated. None for the folder's, by default the model's.
        dtype: dtype policy, such as "mixed_bfloat16"; None for the global one.
        revision: of a name, as for `from_pretrained`.

    Raises:
        ValueError: the model does not compute a vector for a text, or the folder has modules that require other poolings.
    """
    path = Path(located_model(path, revision))
    retriever = read_retriever_folder(path) if path.is_dir() else None
    if retriever is not None and retriever.kind != "embedding":
        raise ValueError(f"{path} must be a model with a vector for each text; it is for {retriever.kind.replace('_', ' ')}.")
    if poolings and retriever is not None and retriever.settings.get("modules"):
        raise ValueError(f"poolings must be left out for {path}, whose own pooling has layers after it; got {', '.join(poolings)}.")
    asked = {"poolings": poolings, "normalize": normalize, "max_len": max_len, "truncate": True if max_len else None}
    arguments: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if retriever is not None or saved_kind(path) == "embedding":
        return load_task(path, "embedding", tokenizer, dtype=dtype, **arguments)
    model = from_pretrained(path, heads=(), dtype=dtype)
    tokenizer = load_tokenizer(path) if tokenizer is None else tokenizer
    settings = {"normalize": False, "max_len": model.config.max_length, "truncate": True, **arguments}
    return task_class("embedding")(model, tokenizer, **settings)
