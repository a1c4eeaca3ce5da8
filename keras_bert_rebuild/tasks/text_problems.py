"""What a classifier of texts may be asked: one label, any number of labels, or a number. Each problem is an object."""

import abc
import math
from collections import Counter, namedtuple
from collections.abc import Hashable

import keras
import numpy as np

from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.tasks.metrics import class_scores, classification_scores, multi_label_scores, regression_scores
from keras_bert_rebuild.tasks.metrics.classes import confusion_rows
from keras_bert_rebuild.tasks.metrics.correlation import REGRESSION_METRICS
from keras_bert_rebuild.training.task_losses import LabelLoss

# The name of the one output of a regression.
SCORE = "score"

# The most probable label, its probability, and those of all labels by name.
Classified = namedtuple("Classified", ["label", "probability", "probabilities"])

# The labels whose probability is the threshold or more, and the probabilities of all by name.
ClassifiedMany = namedtuple("ClassifiedMany", ["labels", "probabilities"])

# The number that a regression answers with.
Scored = namedtuple("Scored", ["score"])


class Problem(abc.ABC):
    """What is asked of every text, and how a model with an output for each label answers it. Abstract.

    The right labels are those of examples; answers are what `answer` gave.
    """

    name: str  # in settings and in task.json
    word: str  # of the command line and of the kind of examples
    huggingface: str  # problem_type of a config.json
    metrics: tuple[str, ...]  # the first chooses the best checkpoint
    options: tuple[str, ...] = ()  # the settings of a fine-tuning that are for this problem
    least, most = 1, math.inf  # outputs of a model
    default_labels: tuple[str, ...] = ()  # the outputs, where examples do not name them

    def check_labels(self, labels):
        """Refuse names of outputs that cannot be those of the problem, with a ValueError."""
        if isinstance(labels, str) or len(set(labels)) != len(labels):
            raise ValueError(f"labels must be a list of names, each once; got {labels!r:.80}.")
        if not self.least <= len(labels) <= self.most:
            wanted = "one output" if self.most == 1 else f"{self.least} labels at least"
            raise ValueError(f"a {self.name} classifier must have {wanted}; got {list(labels)}.")

    def label_counts(self, examples):
        """How many examples have each label, where each has one; else None."""
        return

    @abc.abstractmethod
    def loss(self, labels, class_weights):
        """The loss of logits; a ValueError for weights of labels that the problem has no use for."""

    @abc.abstractmethod
    def target(self, label, known, where):
        """What the model should answer, an array; `known` has the numbers of all labels by name, `where` is for errors."""

    @abc.abstractmethod
    def answer(self, logits, labels, threshold):
        """The answer that logits `(labels,)` give."""

    @abc.abstractmethod
    def row(self, answer):
        """What a file of answers says of one, plain values by name."""

    @abc.abstractmethod
    def scores(self, right, answers, labels):
        """The metrics, `{name: number}`."""

    def details(self, right, answers):
        """What a report shows besides."""
        return {}

    def _refuse(self, class_weights):
        if class_weights is not None:
            raise ValueError(f"class_weights are for the problem 'single_label'; this is {self.name!r}.")


class SingleLabel(Problem):
    """One label for every text."""

    name, word, huggingface = "single_label", "classification", "single_label_classification"
    metrics = ("accuracy", "macro_f1", "matthews")
    options = ("class_weights",)
    least = 2

    def label_counts(self, examples):
        return Counter(example.label for example in examples)

    def loss(self, labels, class_weights):
        return LabelLoss(None if class_weights is None else class_weight_list(class_weights, labels))

    def target(self, label, known, where):
        return np.int32(label_number(label, known, where))

    def answer(self, logits, labels, threshold):
        exponentials = np.exp(logits - logits.max())
        probabilities = dict(zip(labels, (exponentials / exponentials.sum()).tolist(), strict=True))
        best = max(probabilities, key=probabilities.get)
        return Classified(best, probabilities[best], probabilities)

    def row(self, answer):
        row = {"label": answer.label, "probability": round(answer.probability, 6)}
        return {**row, "probabilities": rounded(answer.probabilities)}

    def scores(self, right, answers, labels):
        return classification_scores(right, [answer.label for answer in answers])

    def details(self, right, answers):
        said = [answer.label for answer in answers]
        return {"classes": class_scores(right, said), **confusion_rows(right, said)}


class MultiLabel(Problem):
    """Any number of labels for every text, or none."""

    name, word, huggingface = "multi_label", "multi_label", "multi_label_classification"
    metrics = ("micro_f1", "macro_f1", "accuracy")

    def loss(self, labels, class_weights):
        self._refuse(class_weights)
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def target(self, label, known, where):
        if isinstance(label, str) or not hasattr(label, "__iter__"):
            raise ValueError(f"an example with several labels must have a tuple of them; {where} has {label!r}.")
        target = np.zeros(len(known), "float32")
        for one in label:
            target[label_number(one, known, where)] = 1
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
    most = 1
    default_labels = (SCORE,)

    def loss(self, labels, class_weights):
        self._refuse(class_weights)
        return keras.losses.MeanSquaredError()

    def target(self, label, known, where):
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


def label_number(label, known, where):
    """The number of a label; a ValueError that names the place where it is not in the set."""
    if not isinstance(label, Hashable) or label not in known:
        shown = list(map(str, known))
        raise ValueError(f"a label must be one of {', '.join(shown[:10])}{', ...' * (len(shown) > 10)}; {where} has {label!r}.")
    return known[label]


def class_weight_list(class_weights, labels):
    """Weights by label as a list in the order of the labels."""
    unknown = [label for label in class_weights if label not in labels]
    wrong = [label for label, weight in class_weights.items() if not weight >= 0]
    if unknown or wrong:
        raise ValueError(f"class_weights must give labels weights of at least 0; got {[*unknown, *wrong][0]!r}.")
    return [float(class_weights.get(label, 1.0)) for label in labels]


def rounded(probabilities):
    """Probabilities by label as a file of answers has them."""
    return {label: round(value, 6) for label, value in probabilities.items()}
