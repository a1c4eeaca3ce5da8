"""Classification of texts and pairs of texts: one label, several labels, or a number."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText
from keras_bert_rebuild.tasks.registry import FinetuneTask
from keras_bert_rebuild.tasks.task import Progress, Task
from keras_bert_rebuild.tasks.text_problems import PROBLEMS, Problem
from keras_bert_rebuild.tasks.text_rows import Encoded, example_list, example_name, weighted_mean


class TextClassifier(Task):
    """Classifies texts or pairs of texts.

    Texts longer than `max_len` are split into windows; in training each window has the label of its text. Predictions use the mean
    of the windows' logits, weighted by their numbers of tokens.

    Args:
        model: a `BertModel` with the head "classification"; `model.config.labels` names its outputs, and
            `model.config.problem_type` is set to the problem.
        tokenizer: as for `task_tokenizer`.
        problem: "single_label"; "multi_label" if a text may have any number of labels; "regression" for a number.
        threshold: for "multi_label", the minimum probability of a predicted label.
        max_len, stride: see `Task`.

    Reference: Devlin et al., 2019, section 4.1 (https://arxiv.org/abs/1810.04805).
    """

    kind = "classification"
    heads = ("classification",)
    predicts_encoded_rows = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any = None,
        *,
        problem: str = "single_label",
        threshold: float = 0.5,
        max_len: int | None = None,
        stride: int | None = None,
    ) -> None:
        super().__init__(model, tokenizer, max_len=max_len, stride=stride)
        _problem_of(problem).check_labels(model.config.labels)
        model.config = model.config.replace(problem_type=PROBLEMS[problem].huggingface)
        if not 0 < threshold < 1:
            raise ValueError(f"threshold must be a probability in (0, 1); got {threshold}.")
        self.problem = problem
        self.ignored_label = PROBLEMS[problem].ignored_label
        self.threshold = threshold
        self._numbers = {label: i for i, label in enumerate(self.labels)}

    @classmethod
    def from_encoder(
        cls,
        encoder: str | Path | keras.Model,
        tokenizer: Any = None,
        *,
        labels: Sequence[str] = (),
        problem: str = "single_label",
        **settings: Any,
    ) -> Self:
        """The classifier with a newly initialised head on an encoder: see `Task.from_encoder`; a regression needs no labels."""
        labels = tuple(labels) or _problem_of(problem).default_labels
        _problem_of(problem).check_labels(labels)
        return super().from_encoder(encoder, tokenizer, labels=labels, problem=problem, **settings)

    @classmethod
    def words(cls) -> tuple[FinetuneTask, ...]:
        """A `FinetuneTask` for every problem."""
        return tuple(
            FinetuneTask(problem.word, cls, problem.word, problem.metrics, {"problem": problem.name}, problem.options)
            for problem in PROBLEMS.values()
        )

    @property
    def word(self) -> FinetuneTask:
        return next(word for word in self.words() if word.settings["problem"] == self.problem)

    @classmethod
    def settings_for(
        cls, examples: Sequence[Any], options: Mapping[str, Any], problem: str = "single_label", **settings: Any
    ) -> dict[str, Any]:
        return {} if _problem_of(problem).default_labels else {"labels": cls.labels_of(examples)}

    @classmethod
    def label_counts(
        cls, examples: Sequence[Any], weighed: bool = False, problem: str = "single_label", **settings: Any
    ) -> Counter | None:
        return _problem_of(problem).label_counts(examples)

    @staticmethod
    def labels_of(examples: Iterable[Any]) -> tuple[str, ...]:
        """The labels of examples, sorted.

        Raises:
            ValueError: there are no labels, or only one.
        """
        labelled = [example for example in example_list(examples) if example.label is not None]
        counts = Counter(label for example in labelled for label in example.labels())
        if len(counts) < 2:
            raise ValueError(
                f"examples must have at least two different labels; {len(labelled)} examples have {list(counts) or 'none'}."
            )
        return tuple(sorted(counts))

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None, batch_size: int = 32) -> list[Any]:
        """Classify texts.

        Args:
            texts: a list of texts.
            pairs: the second text of every pair, or None.
            batch_size: rows per batch.

        Returns:
            For every text a `Classified`, a `ClassifiedMany` or a `Scored`, depending on the problem.

        Raises:
            ValueError: not a list, an empty list, or a different number of first and second texts.
        """
        texts = example_list(texts, "texts")
        seconds = [None] * len(texts) if pairs is None else example_list(pairs, "pairs")
        if len(seconds) != len(texts):
            raise ValueError(f"pairs must have a text for each of the {len(texts)} texts; got {len(seconds)}.")
        return self.predict_examples([ClassifiedText(*both) for both in zip(texts, seconds, strict=True)], batch_size)

    def encode(self, examples: Iterable[Any]) -> Encoded:
        examples = example_list(examples)
        pairs = [example.pair for example in examples]
        if None in pairs and set(pairs) != {None}:
            number = pairs.index(None)
            raise ValueError(
                f"examples must all be pairs or all be single texts; {example_name(examples[number], number)} is single."
            )
        windows = self.windows([example.text for example in examples], None if pairs[0] is None else pairs)
        if any(example.label is None for example in examples):
            return Encoded(windows)
        targets = [self._target(example, i) for i, example in enumerate(examples)]
        return Encoded(windows, np.stack(targets)[windows.examples])

    def loss(self, class_weights: Mapping[str, float] | None = None) -> keras.losses.Loss:
        """Cross entropy; for several labels the binary cross entropy of each; for a regression the squared error."""
        return self._problem.loss(self.labels, class_weights)

    def predict_examples(self, examples: Iterable[Any], batch_size: int = 32, progress: Progress = None) -> list[Any]:
        windows = self.encode([ClassifiedText(example.text, example.pair) for example in example_list(examples)]).windows
        logits = weighted_mean(self.predict_windows(windows, batch_size, progress), windows)
        return [self._problem.answer(row, self.labels, self.threshold) for row in logits]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Accuracy, macro F1 and Matthews; for several labels micro and macro F1; for a regression Pearson and Spearman."""
        return self._problem.scores([example.label for example in examples], answers, self.labels)

    def details(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
        return self._problem.details([example.label for example in examples], answers)

    def row(self, example: Any, answer: Any) -> dict[str, Any]:
        pair = {} if example.pair is None else {"pair": example.pair}
        return {"text": example.text, **pair, **self._problem.row(answer)}

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        named = next((name for name, problem in PROBLEMS.items() if problem.huggingface == config.problem_type), None)
        return {"problem": named or ("regression" if len(config.labels) == 1 else "single_label")}

    @property
    def _problem(self):
        return PROBLEMS[self.problem]

    def _target(self, example, number):
        return self._problem.target(example.label, self._numbers, example_name(example, number))


def _problem_of(name: str) -> Problem:
    """A problem by its name; a ValueError if it is unknown."""
    if name not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(PROBLEMS)}; got {name!r}.")
    return PROBLEMS[name]
