"""The tasks by name."""

import importlib

# The word for a task in files and commands, and where its class lies.
TASKS = {
    "classification": ("keras_bert_rebuild.tasks.text_classifier", "TextClassifier"),
    "token_classification": ("keras_bert_rebuild.tasks.token_classifier", "TokenClassifier"),
    "question_answering": ("keras_bert_rebuild.tasks.question_answerer", "QuestionAnswerer"),
    "embedding": ("keras_bert_rebuild.tasks.sentence_embedder", "SentenceEmbedder"),
    "multiple_choice": ("keras_bert_rebuild.tasks.multiple_choice", "MultipleChoice"),
}


def task_class(kind):
    """The class of a task.

    Raises:
        ValueError: there is no such task.
    """
    if not isinstance(kind, str) or kind not in TASKS:
        raise ValueError(f"expected a task among {', '.join(TASKS)}; got {kind!r:.80}.")
    module, name = TASKS[kind]
    return getattr(importlib.import_module(module), name)
