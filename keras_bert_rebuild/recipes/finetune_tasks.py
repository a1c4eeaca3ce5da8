"""What can be fine-tuned: which class learns it, from which examples, and by which score it is judged."""

import difflib
from dataclasses import dataclass, field

from keras_bert_rebuild.tasks.task_kinds import task_class


@dataclass(frozen=True)
class FinetuneTask:
    """A word of the command line."""

    name: str
    """The word."""

    kind: str
    """The task class, a key of `TASKS`."""

    examples: str
    """The examples, a key of `KINDS`."""

    metrics: tuple
    """The scores; the first that an evaluation gives chooses the best checkpoint."""

    settings: dict = field(default_factory=dict)
    """What the class is told."""

    @property
    def task_class(self):
        """The class."""
        return task_class(self.kind)


_SQUAD = ("f1", "exact_match", "has_answer_f1", "has_answer_exact_match", "no_answer_f1", "no_answer_exact_match")
_REGRESSION = ("spearman", "pearson", "mean_squared_error")

FINETUNE_TASKS = {
    task.name: task
    for task in (
        FinetuneTask(
            "classification",
            "classification",
            "classification",
            ("accuracy", "macro_f1", "matthews"),
            {"problem": "single_label"},
        ),
        FinetuneTask(
            "multi_label",
            "classification",
            "multi_label",
            ("micro_f1", "macro_f1", "accuracy"),
            {"problem": "multi_label"},
        ),
        FinetuneTask("regression", "classification", "regression", _REGRESSION, {"problem": "regression"}),
        FinetuneTask(
            "token_classification",
            "token_classification",
            "tagging",
            ("f1", "precision", "recall", "accuracy", "macro_f1"),
        ),
        FinetuneTask("question_answering", "question_answering", "questions", _SQUAD),
        FinetuneTask("similarity", "embedding", "similarity", _REGRESSION),
        FinetuneTask("multiple_choice", "multiple_choice", "choices", ("accuracy",)),
    )
}

# The score that is better the less it is.
LESS_IS_BETTER = ("mean_squared_error",)


def finetune_task(name):
    """A task by its word, with - or _ between its parts.

    Raises:
        ValueError: there is no such task, with the nearest one that is.
    """
    found = FINETUNE_TASKS.get(str(name).replace("-", "_"))
    if found is None:
        near = difflib.get_close_matches(str(name), FINETUNE_TASKS, n=1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise ValueError(f"expected a task among {', '.join(FINETUNE_TASKS)}; got {name!r}{hint}.")
    return found
