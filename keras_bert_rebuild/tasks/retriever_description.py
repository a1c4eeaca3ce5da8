"""The identity of a retriever, so that an index is never searched with the vectors of another model."""

import hashlib
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert_rebuild.checkpoints.transfer import to_numpy


def weights_digest(model: keras.Model) -> str:
    """The sha256 of a model's weights with their paths and shapes, in the order of paths, as hexadecimal digits."""
    digest = hashlib.sha256()
    for variable in sorted(model.weights, key=lambda variable: variable.path):
        if "seed_generator" not in variable.path:  # the state of dropout does not affect vectors
            digest.update(f"{variable.path} {tuple(variable.shape)}\n".encode())
            digest.update(to_numpy(variable).astype("float32").tobytes())
    return digest.hexdigest()


def retriever_description(task: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values that differ if the vectors of two retrievers differ.

    Args:
        task: a task with `vectors`, `width`, `model` and `tokenizer`.
        settings: the settings that affect its vectors, plain values.
    """
    tokens = repr((type(task.tokenizer).__name__, sorted(task.tokenizer.tokens.items())))
    return {
        "kind": task.kind,
        "vectors": task.vectors,
        "width": task.width,
        "weights": weights_digest(task.model),
        "tokenizer": hashlib.sha256(tokens.encode()).hexdigest(),
        **settings,
    }
