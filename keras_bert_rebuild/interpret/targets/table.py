"""The tasks that can be attributed, and the output of each."""

import importlib
from typing import Any

from keras_bert_rebuild.interpret.subject import Subject
from keras_bert_rebuild.interpret.targets.choices import QUANTITIES

# Kind of a task, its module here and the function from task, texts, target, word and quantity to the `Subject`.
TARGETS = {
    "classification": ("of_texts", "of_classifier"),
    "reranking": ("of_texts", "of_reranker"),
    "multiple_choice": ("of_texts", "of_choice"),
    "next_sentence": ("of_texts", "of_next_sentence"),
    "token_classification": ("of_words", "of_token_classifier"),
    "question_answering": ("of_words", "of_question"),
    "fill_mask": ("of_words", "of_masked_word"),
    "embedding": ("of_vectors", "of_similarity"),
    "sparse_embedding": ("of_vectors", "of_sparse"),
    "late_interaction": ("of_vectors", "of_late_interaction"),
}


def subject_of(task: Any, texts: tuple[str, ...], target: Any = None, at: Any = None, quantity: str = "logit") -> Subject:
    """The `Subject` for an output of a task for texts.

    Args:
        task: a task whose kind is in `TARGETS`.
        texts: the text, or the texts that are read together.
        target, at, quantity: as for `attribute`.

    Raises:
        ValueError: the task cannot be attributed, or a text or an option does not suit it.
    """
    kind = getattr(task, "kind", None)
    if kind not in TARGETS:
        known = ", ".join(TARGETS)
        raise ValueError(f"attribute accepts tasks of {known}; got {type(task).__name__}{f' of kind {kind}' * (kind is not None)}.")
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity must be {' or '.join(QUANTITIES)}; got {quantity!r}.")
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"texts must be strings; got {type(text).__name__} {str(text)[:40]!r}.")
    module, name = TARGETS[kind]
    return getattr(importlib.import_module(f"keras_bert_rebuild.interpret.targets.{module}"), name)(
        task, texts, target, at, quantity
    )
