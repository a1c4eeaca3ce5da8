"""The registry of tasks: by their names on the command line, and by the kinds in saved files."""

import difflib
import importlib
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keras_bert_rebuild.data.labelled.example_kinds import Kind

# The kind of a task in files, the module and name of its class, and its names on the command line. This repeats what the classes
# define, so that they are imported only when needed.
_BUILT_IN = {
    "classification": ("text_classifier", "TextClassifier", ("classification", "multi_label", "regression")),
    "token_classification": ("token_classifier", "TokenClassifier", ("token_classification",)),
    "question_answering": ("question_answerer", "QuestionAnswerer", ("question_answering",)),
    "embedding": ("sentence_embedder", "SentenceEmbedder", ("similarity", "retrieval", "labelled_similarity")),
    "multiple_choice": ("multiple_choice", "MultipleChoice", ("multiple_choice",)),
    "reranking": ("reranker", "Reranker", ("rerank",)),
    "late_interaction": ("late_interaction", "LateInteractionEmbedder", ("late_interaction",)),
    "sparse_embedding": ("sparse_embedder", "SparseEmbedder", ("sparse_retrieval",)),
}

# The classes registered with `register_task`, by kind.
_REGISTERED: dict[str, Any] = {}


@dataclass(frozen=True)
class FinetuneTask:
    """A task on the command line, before it has a model."""

    name: str
    """The name on the command line."""

    task_class: Any
    """The class, a subclass of `Task`."""

    examples: str | Kind
    """The type of the examples, as for `read_examples`."""

    metrics: Sequence[str]
    """The names of the scores; the first one in an evaluation selects the best checkpoint."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the class."""

    options: Sequence[str] = ()
    """The fields of `FinetuneSettings` that this task accepts and some others do not, such as "crf" and "objective"."""

    @property
    def kind(self) -> str:
        """The name of the class in files."""
        return self.task_class.kind

    def settings_for(self, examples: Sequence[Any], wanted: Any) -> dict[str, Any]:
        """All settings for `from_encoder`, see `Task.settings_for`; `wanted` has the options as attributes."""
        options = {name: getattr(wanted, name) for name in self.options}
        return {**self.settings, **self.task_class.settings_for(examples, options, **self.settings)}

    def label_counts(self, examples: Sequence[Any], weighed: bool = False) -> Counter | None:
        """See `Task.label_counts`."""
        return self.task_class.label_counts(examples, weighed, **self.settings)


def register_task(cls: Any) -> Any:
    """Register a subclass of `Task` for `finetune`, `predict` and `load_task`; a class decorator.

    Raises:
        ValueError: another task has the same kind or one of its names.
    """
    taken = {word for kind, (_, _, words) in _BUILT_IN.items() for word in (kind, *words)}
    # A class that is registered again, for example by a notebook cell that runs twice, replaces the earlier one.
    path = cls.__module__, cls.__qualname__
    registered = [other for other in _REGISTERED.values() if (other.__module__, other.__qualname__) != path]
    taken |= {word for other in registered for word in (other.kind, *(task.name for task in other.words()))}
    twice = next((word for word in (cls.kind, *(task.name for task in cls.words())) if word in taken), None)
    if twice is not None:
        raise ValueError(f"the kind and names of a task must be unique; {twice!r} of {cls.__name__} belongs to another task.")
    _REGISTERED[cls.kind] = cls
    return cls


def task_kinds() -> tuple[str, ...]:
    """The kinds of tasks in files."""
    return (*_BUILT_IN, *_REGISTERED)


def task_names() -> tuple[str, ...]:
    """The names of tasks on the command line."""
    built_in = (name for _, _, names in _BUILT_IN.values() for name in names)
    return (*built_in, *(task.name for cls in _REGISTERED.values() for task in cls.words()))


def task_class(kind: Any) -> Any:
    """The class of a task by its kind.

    Raises:
        ValueError: the kind is unknown.
    """
    if not isinstance(kind, str) or kind not in task_kinds():
        raise ValueError(f"expected a task among {', '.join(task_kinds())}; got {kind!r:.80}.")
    if kind in _REGISTERED:
        return _REGISTERED[kind]
    module, name, _ = _BUILT_IN[kind]
    return getattr(importlib.import_module(f"keras_bert_rebuild.tasks.{module}"), name)


def finetune_task(name: Any) -> FinetuneTask:
    """A task by its name on the command line, with - or _ between its parts.

    Raises:
        ValueError: the name is unknown; the error suggests the nearest one.
    """
    wanted, names = str(name).replace("-", "_"), task_names()
    if wanted not in names:
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise ValueError(f"expected a task among {', '.join(names)}; got {name!r}{hint}.")
    kinds = (kind for kind, (_, _, words) in _BUILT_IN.items() if wanted in words)
    classes = [task_class(kind) for kind in kinds] or _REGISTERED.values()
    return next(task for cls in classes for task in cls.words() if task.name == wanted)


def setting_types(cls: Any) -> dict[str, Any]:
    """The settings of a class of tasks, which are the keyword arguments of its constructor, with their types."""
    parameters = inspect.signature(cls).parameters.values()
    return {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}


def settings_in_attributes(task: Any) -> dict[str, Any]:
    """The settings of a task as plain values: those of its attributes that have the names of settings.

    Args:
        task: a task; its `saved_first` come first, and its `unsaved` are left out.
    """
    names = [*task.saved_first, *(name for name in setting_types(type(task)) if name not in (*task.saved_first, *task.unsaved))]
    values = {name: getattr(task, name) for name in names if hasattr(task, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
