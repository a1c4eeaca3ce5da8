"""Classification of texts and pairs of texts: one label, several labels, or a number."""

import math
import numbers
from collections import Counter, namedtuple
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.labelled_examples import ClassifiedText
from keras_bert_rebuild.tasks.encode_windows import encode_windows
from keras_bert_rebuild.tasks.task import Encoded, Task, example_list, place_of, weighted_mean
from keras_bert_rebuild.training.task_losses import LabelLoss

# Our word and Hugging Face's.
HUGGINGFACE_PROBLEMS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
PROBLEMS = tuple(HUGGINGFACE_PROBLEMS)

# The name of the one output of a regression.
SCORE = "score"

# The most probable label, its probability, and those of all labels by name.
Classified = namedtuple("Classified", ["label", "probability", "probabilities"])

# The labels whose probability is the threshold or more, and the probabilities of all by name.
ClassifiedMany = namedtuple("ClassifiedMany", ["labels", "probabilities"])

# The number that a regression answers with.
Scored = namedtuple("Scored", ["score"])


class TextClassifier(Task):
    """Tell what a text or a pair of texts is.

    Texts longer than `max_len` go in windows, in training each with the label of its text; the answer is made of the mean of the
    windows' logits, weighted by their tokens.

    Args:
        model: a `BertModel` with the head "classification"; `model.config.labels` names its outputs, and
            `model.config.problem_type` is made to say the problem.
        tokenizer: as for `task_tokenizer`.
        problem: "single_label"; "multi_label" where a text may have several labels or none; "regression" for a number.
        threshold: for "multi_label", the probability from which on a label is given.
        max_len, stride: as of `Task`.

    Reference: Devlin et al., 2019, section 4.1 (https://arxiv.org/abs/1810.04805).
    """

    kind = "classification"
    heads = ("classification",)

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
        _check_problem(problem, model.config.labels)
        model.config = model.config.replace(problem_type=HUGGINGFACE_PROBLEMS[problem])
        if not 0 < threshold < 1:
            raise ValueError(f"threshold must be a probability in (0, 1); got {threshold}.")
        self.problem = problem
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
        """The classifier with a fresh head on an encoder: see `Task.from_encoder`; a regression needs no labels."""
        labels = (SCORE,) if problem == "regression" and not labels else tuple(labels)
        _check_problem(problem, labels)
        return super().from_encoder(encoder, tokenizer, labels=labels, problem=problem, **settings)

    @staticmethod
    def labels_of(examples: Iterable[Any]) -> tuple[str, ...]:
        """The labels that examples have, sorted.

        Raises:
            ValueError: there are no labels, or only one.
        """
        given = [example.label for example in example_list(examples) if example.label is not None]
        counts = Counter(label for of_one in given for label in (of_one if isinstance(of_one, (tuple, list)) else [of_one]))
        if len(counts) < 2:
            raise ValueError(
                f"there must be two labels at least to tell apart; {len(given)} examples have {list(counts) or 'none'}."
            )
        return tuple(sorted(counts))

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None, batch_size: int = 32) -> list[Any]:
        """Classify texts.

        Args:
            texts: a list of texts.
            pairs: the second text of every pair, or None.
            batch_size: rows of a batch.

        Returns:
            For every text a `Classified`, a `ClassifiedMany` or a `Scored`, as the problem is.

        Raises:
            ValueError: not a list, an empty one, or not as many second texts as first ones.
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
            raise ValueError(f"all examples must be pairs of texts, or none; {place_of(examples[number], number)} has one text.")
        windows = encode_windows(
            self.tokenizer,
            [example.text for example in examples],
            None if pairs[0] is None else pairs,
            max_len=self.max_len,
            stride=self.stride,
        )
        if any(example.label is None for example in examples):
            return Encoded(windows)
        targets = [self._target(example, i) for i, example in enumerate(examples)]
        return Encoded(windows, np.stack(targets)[windows.examples])

    def loss(self, class_weights: Mapping[str, float] | None = None) -> keras.losses.Loss:
        """Cross entropy, for several labels binary cross entropy of each, for a regression the squared error."""
        if self.problem == "single_label":
            return LabelLoss(None if class_weights is None else class_weight_list(class_weights, self.labels))
        if class_weights is not None:
            raise ValueError(f"class_weights are for the problem 'single_label'; this is {self.problem!r}.")
        if self.problem == "multi_label":
            return keras.losses.BinaryCrossentropy(from_logits=True)
        return keras.losses.MeanSquaredError()

    def predict_examples(
        self, examples: Iterable[Any], batch_size: int = 32, progress: Callable[[int, int], object] | None = None
    ) -> list[Any]:
        windows = self.encode([ClassifiedText(example.text, example.pair) for example in example_list(examples)]).windows
        return [self._answer(logits) for logits in weighted_mean(self._predict(windows, batch_size, progress), windows)]

    def scores(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        """Accuracy, macro F1 and Matthews; micro and macro F1 of several labels; Pearson and Spearman of a regression."""
        from keras_bert_rebuild.tasks.metrics import classification_scores, multi_label_scores, regression_scores

        right = [example.label for example in examples]
        if self.problem == "regression":
            return regression_scores(right, [answer.score for answer in answers])
        if self.problem == "multi_label":
            return multi_label_scores(right, [answer.labels for answer in answers], self.labels)
        return classification_scores(right, [answer.label for answer in answers])

    @classmethod
    def settings_of(cls, config: BertConfig) -> dict[str, Any]:
        problem = {theirs: ours for ours, theirs in HUGGINGFACE_PROBLEMS.items()}.get(str(config.problem_type))
        return {"problem": problem or ("regression" if len(config.labels) == 1 else "single_label")}

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "problem": self.problem, "threshold": self.threshold}

    def _target(self, example, number):
        label, where = example.label, place_of(example, number)
        if self.problem == "regression":
            if isinstance(label, bool) or not isinstance(label, numbers.Real) or not math.isfinite(label):
                raise ValueError(f"the label of a regression must be a number; {where} has {label!r}.")
            return np.array([label], "float32")
        if self.problem == "single_label":
            return np.int32(label_number(label, self._numbers, where))
        if isinstance(label, str) or not hasattr(label, "__iter__"):
            raise ValueError(f"an example with several labels must have a tuple of them; {where} has {label!r}.")
        target = np.zeros(len(self.labels), "float32")
        for one in label:
            target[label_number(one, self._numbers, where)] = 1
        return target

    def _answer(self, logits):
        if self.problem == "regression":
            return Scored(float(logits[0]))
        if self.problem == "multi_label":
            probabilities = dict(zip(self.labels, (1 / (1 + np.exp(-logits))).tolist(), strict=True))
            return ClassifiedMany(tuple(label for label, p in probabilities.items() if p >= self.threshold), probabilities)
        exponentials = np.exp(logits - logits.max())
        probabilities = dict(zip(self.labels, (exponentials / exponentials.sum()).tolist(), strict=True))
        best = max(probabilities, key=probabilities.get)
        return Classified(best, probabilities[best], probabilities)


def label_number(label, numbers, where):
    """The number of a label; a ValueError that names the place where it is not in the set."""
    if not isinstance(label, Hashable) or label not in numbers:
        shown = list(map(str, numbers))
        raise ValueError(f"a label must be one of {', '.join(shown[:10])}{', ...' * (len(shown) > 10)}; {where} has {label!r}.")
    return numbers[label]


def class_weight_list(class_weights, labels):
    """Weights by label as a list in the order of the labels."""
    unknown = [label for label in class_weights if label not in labels]
    wrong = [label for label, weight in class_weights.items() if not weight >= 0]
    if unknown or wrong:
        raise ValueError(f"class_weights must give labels weights of at least 0; got {[*unknown, *wrong][0]!r}.")
    return [float(class_weights.get(label, 1.0)) for label in labels]


def _check_problem(problem, labels):
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(PROBLEMS)}; got {problem!r}.")
    if isinstance(labels, str) or len(set(labels)) != len(labels):
        raise ValueError(f"labels must be a list of names, each once; got {labels!r:.80}.")
    least = 2 if problem == "single_label" else 1
    if len(labels) < least or (problem == "regression" and len(labels) != 1):
        wanted = "one output" if problem == "regression" else f"{least} labels at least"
        raise ValueError(f"a {problem} classifier must have {wanted}; got {list(labels)}.")
