"""The outputs of tasks that can be attributed: which there are, and checks of the user's choices."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert_rebuild.interpret.subject import Subject

# Kind of a task, its module here and the function from task, texts, target, word and quantity to the `Subject`.
TARGETS = {
    "classification": ("text_subjects", "classifier_subject"),
    "reranking": ("text_subjects", "reranker_subject"),
    "multiple_choice": ("text_subjects", "choice_subject"),
    "next_sentence": ("text_subjects", "next_sentence_subject"),
    "token_classification": ("word_subjects", "token_classifier_subject"),
    "question_answering": ("word_subjects", "question_subject"),
    "fill_mask": ("word_subjects", "masked_word_subject"),
    "embedding": ("vector_subjects", "similarity_subject"),
    "sparse_embedding": ("vector_subjects", "sparse_subject"),
    "late_interaction": ("vector_subjects", "late_interaction_subject"),
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
        kinds = ", ".join(TARGETS)
        raise ValueError(f"attribute accepts tasks of {kinds}; got {type(task).__name__}{f' of kind {kind}' * (kind is not None)}.")
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity must be {' or '.join(QUANTITIES)}; got {quantity!r}.")
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"texts must be strings; got {type(text).__name__} {str(text)[:40]!r}.")
    module, name = TARGETS[kind]
    return getattr(importlib.import_module(f"keras_bert_rebuild.interpret.targets.{module}"), name)(
        task, texts, target, at, quantity
    )


# The quantities: the logit of the target, or its probability after the softmax or sigmoid.
QUANTITIES = ("logit", "probability")


def label_index(target: Any, labels: Sequence[str], what: str = "target") -> int:
    """The index of a label by its name.

    Raises:
        ValueError: there is no such label.
    """
    if target not in labels:
        shown = ", ".join(map(str, labels[:10])) + ", ..." * (len(labels) > 10)
        raise ValueError(f"{what} must be one of {shown}; got {target!r:.80}.")
    return list(labels).index(target)


def word_index(at: Any, texts: Sequence[str], word_spans: Sequence[tuple[int, int, int]]) -> int:
    """The index of a word, given as an index from 0, or by its spelling, for the first occurrence.

    Raises:
        ValueError: there is no such word.
    """
    spelled = [texts[text][start:end] for text, start, end in word_spans]
    if isinstance(at, int) and not isinstance(at, bool) and 0 <= at < len(spelled):
        return at
    if at not in spelled:
        raise ValueError(f"at must be a word of the text or its index, from 0 to {len(spelled) - 1}; got {at!r:.80}.")
    return spelled.index(at)


def one_text(texts: Sequence[str], name: str) -> str:
    """The text of a task on single texts.

    Raises:
        ValueError: there is a second text.
    """
    if len(texts) != 1:
        raise ValueError(f"{name} reads one text; got {len(texts)}.")
    return texts[0]


def two_texts(texts: Sequence[str], name: str, meant: str) -> tuple[str, str]:
    """The texts of a task on pairs.

    Raises:
        ValueError: there are more or fewer than two texts.
    """
    if len(texts) != 2:
        raise ValueError(f"{name} reads {meant}: give the second as a pair; got {len(texts)} text{'s' * (len(texts) != 1)}.")
    return texts[0], texts[1]


def no_probability(quantity: str, name: str) -> None:
    """Refuse the quantity "probability" for a task without probabilities."""
    if quantity == "probability":
        raise ValueError(f"quantity must be logit for {name}, which has no probability; got {quantity!r}.")


def nothing(value: Any, name: str, task: str, has: str) -> None:
    """Refuse an option that a task does not have."""
    if value is not None:
        raise ValueError(f"{name} must be left out for {task}, which has {has}; got {value!r:.80}.")


def window_means(windows: Any, texts: int) -> np.ndarray:
    """The weights of windows in the mean over those of each text, by their number of tokens, float32 `(texts, rows)`.

    Args:
        windows: `Windows`.
        texts: how many texts, or choices, the rows are of.
    """
    sizes = np.array([len(ids) for ids in windows.ids], "float64")
    of_text = (windows.examples == np.arange(texts)[:, None]) * sizes
    return (of_text / of_text.sum(1, keepdims=True)).astype("float32")
