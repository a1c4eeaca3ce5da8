"""The problems of a text classifier: one label, any number of labels, or a number. Each problem is an object."""

import abc
import math
from collections import Counter, namedtuple
from collections.abc import Hashable

import keras
import numpy as np

from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.tasks.metrics import class_scores, classification_scores, multi_label_scores, regression_scores
from keras_bert_rebuild.tasks.metrics.classes import REGRESSION_METRICS, confusion_rows
from keras_bert_rebuild.tasks.text_rows import softmax
from keras_bert_rebuild.training.losses import IGNORED
from keras_bert_rebuild.training.task_losses import LabelLoss

# The name of the output of a regression.
SCORE = "score"

# The most probable label, its probability, and those of all labels by name.
Classified = namedtuple("Classified", ["label", "probability", "probabilities"])

# The labels whose probability is at least the threshold, and the probabilities of all by name.
ClassifiedMany = namedtuple("ClassifiedMany", ["labels", "probabilities"])

# The predicted number of a regression.
Scored = namedtuple("Scored", ["score"])


class Problem(abc.ABC):
    """The kind of prediction for every text, from a model with an output for each label. Abstract.

    Its methods compare the labels of examples with the results of `answer`.
    """

    name: str  # in settings and in task.json
    word: str  # on the command line, and the type of the examples
    huggingface: str  # problem_type of a config.json
    metrics: tuple[str, ...]  # the first one selects the best checkpoint
    options: tuple[str, ...] = ()  # fields of `FinetuneSettings` for this problem
    min_outputs, max_outputs = 1, math.inf  # number of outputs of a model
    ignored_label: int | None = None  # that the loss ignores; None if it counts all
    default_labels: tuple[str, ...] = ()  # names of the outputs, if examples have no labels with names

    def check_labels(self, labels):
        """Raise a ValueError for names of outputs that do not suit the problem."""
        if isinstance(labels, str) or len(set(labels)) != len(labels):
            raise ValueError(f"labels must be a list of names, each once; got {labels!r:.80}.")
        if not self.min_outputs <= len(labels) <= self.max_outputs:
            wanted = "one output" if self.max_outputs == 1 else f"at least {self.min_outputs} labels"
            raise ValueError(f"a {self.name} classifier must have {wanted}; got {list(labels)}.")

    def label_counts(self, examples):
        """The number of examples of each label if each example has one label; else None."""
        return

    @abc.abstractmethod
    def loss(self, labels, class_weights):
        """The loss on logits; a ValueError for class weights if the problem does not support them."""

    @abc.abstractmethod
    def target(self, label, indices, where):
        """The target of the model, an array; `indices` maps all labels to their indices, `where` names the example in errors."""

    @abc.abstractmethod
    def answer(self, logits, labels, threshold):
        """The answer from logits `(labels,)`."""

    @abc.abstractmethod
    def row(self, answer):
        """A prediction in a file of predictions, plain values by name."""

    @abc.abstractmethod
    def scores(self, right, answers, labels):
        """The metrics, `{name: number}`."""

    def details(self, right, answers):
        """Further parts of a report."""
        return {}

    def _refuse(self, class_weights):
        if class_weights is not None:
            raise ValueError(f"class_weights must be None except for the problem 'single_label'; the problem is {self.name!r}.")


class SingleLabel(Problem):
    """One label for every text."""

    name, word, huggingface = "single_label", "classification", "single_label_classification"
    metrics = ("accuracy", "macro_f1", "matthews")
    options = ("class_weights",)
    ignored_label = IGNORED
    min_outputs = 2

    def label_counts(self, examples):
        return Counter(example.label for example in examples)

    def loss(self, labels, class_weights):
        return LabelLoss(None if class_weights is None else class_weight_list(class_weights, labels))

    def target(self, label, indices, where):
        return np.int32(label_number(label, indices, where))

    def answer(self, logits, labels, threshold):
        probabilities = dict(zip(labels, softmax(logits).tolist(), strict=True))
        best = max(probabilities, key=probabilities.get)
        return Classified(best, probabilities[best], probabilities)

    def row(self, answer):
        row = {"label": answer.label, "probability": round(answer.probability, 6)}
        return {**row, "probabilities": rounded(answer.probabilities)}

    def scores(self, right, answers, labels):
        return classification_scores(right, [answer.label for answer in answers])

    def details(self, right, answers):
        predicted = [answer.label for answer in answers]
        return {"classes": class_scores(right, predicted), **confusion_rows(right, predicted)}


class MultiLabel(Problem):
    """Any number of labels for every text, including none."""

    name, word, huggingface = "multi_label", "multi_label", "multi_label_classification"
    metrics = ("micro_f1", "macro_f1", "accuracy")

    def loss(self, labels, class_weights):
        self._refuse(class_weights)
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def target(self, label, indices, where):
        if isinstance(label, str) or not hasattr(label, "__iter__"):
            raise ValueError(f"an example with several labels must have a tuple of them; {where} has {label!r}.")
        target = np.zeros(len(indices), "float32")
        for one in label:
            target[label_number(one, indices, where)] = 1
        return target

    def answer(self, logits, labels, threshold):
        probabilities = dict(zip(labels, (1 / (1 + np.exp(-logits))).tolist(), strict=True))
        return ClassifiedMany(tuple(label for label, p in probabilities.items() if p >= threshold), probabilities)

    def row(self, answer):
        return {"labels": list(answer.labels), "probabilities": rounded(answer.probabilities)}

    def scores(self, right, answers, labels):
        return multi_label_scores(right, [answer.labels for answer in answers], labels)


class Regression(Problem):
    """A number for every text."""

    name, word, huggingface = "regression", "regression", "regression"
    metrics = REGRESSION_METRICS
    max_outputs = 1
    default_labels = (SCORE,)

    def loss(self, labels, class_weights):
        self._refuse(class_weights)
        return keras.losses.MeanSquaredError()

    def target(self, label, indices, where):
        if not is_number(label):
            raise ValueError(f"the label of a regression must be a number; {where} has {label!r}.")
        return np.array([label], "float32")

    def answer(self, logits, labels, threshold):
        return Scored(float(logits[0]))

    def row(self, answer):
        return {"score": round(answer.score, 6)}

    def scores(self, right, answers, labels):
        return regression_scores(right, [answer.score for answer in answers])


PROBLEMS = {problem.name: problem for problem in (SingleLabel(), MultiLabel(), Regression())}


def label_number(label, indices, where):
    """The index of a label; a ValueError that names the example if the label is unknown."""
    if not isinstance(label, Hashable) or label not in indices:
        shown = list(map(str, indices))
        raise ValueError(f"a label must be one of {', '.join(shown[:10])}{', ...' * (len(shown) > 10)}; {where} has {label!r}.")
    return indices[label]


def class_weight_list(class_weights, labels):
    """Weights by label as a list in the order of the labels."""
    unknown = [label for label in class_weights if label not in labels]
    wrong = [label for label, weight in class_weights.items() if not weight >= 0]
    if unknown or wrong:
        raise ValueError(f"class_weights must give labels weights of at least 0; got {[*unknown, *wrong][0]!r}.")
    return [float(class_weights.get(label, 1.0)) for label in labels]


def rounded(probabilities):
    """Probabilities by label, rounded for a file of predictions."""
    return {label: round(value, 6) for label, value in probabilities.items()}
