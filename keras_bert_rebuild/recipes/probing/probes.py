"""Probes of a model in training: how well a linear function of its frozen vectors predicts the labels of given files."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.recipes.probing.bag_of_words import overlap, token_counts
from keras_bert_rebuild.recipes.probing.encoder_copy import EncoderCopy
from keras_bert_rebuild.recipes.probing.linear_probe import predicted_labels, predicted_numbers
from keras_bert_rebuild.recipes.probing.probe_files import ProbeExamples
from keras_bert_rebuild.tasks.metrics.classes import spearman
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

METRICS = {"classification": "accuracy", "similarity": "spearman"}


def probe_columns(probes: Sequence[ProbeExamples]) -> tuple[str, ...]:
    """The columns of the curve of a run with probes, such as "probe_mood_accuracy"."""
    return tuple(_column(probe) for probe in probes)


def _column(probe):
    return f"probe_{probe.files.name}_{METRICS[probe.files.kind]}"


class Probes:
    """The probes of a run.

    Texts are tokenised once. For every measurement the weights are copied, the vectors of all texts are computed, and a linear
    model is fitted on the training examples and scored on the others: the score depends only on the weights and the files.

    Args:
        probes: a list of `ProbeExamples`.
        model: the model in training, or its encoder, with a `BertConfig` in `config`.
        tokenizer: the model's tokenizer.
        max_len: maximum number of tokens of a text; longer texts are truncated.
    """

    def __init__(self, probes: Sequence[ProbeExamples], model: keras.Model, tokenizer: BatchTokenizer, max_len: int) -> None:
        self.probes, self.columns = list(probes), probe_columns(probes)
        self.copy = EncoderCopy(model, tokenizer, max_len)
        self._rows = [self.copy.rows(probe.texts) for probe in self.probes] if self.copy.here else []

    def scores(self, goes_on: Callable[[], bool] = lambda: True) -> dict[str, float]:
        """The score of every probe by column, on host 0; other hosts take part and get an empty dictionary.

        Args:
            goes_on: called before every probe; False ends the measurement.

        Returns:
            All scores, or none if the measurement was ended.
        """
        self.copy.update()
        found = {}
        for probe, rows in zip(self.probes, self._rows, strict=False):
            if not goes_on():
                return {}
            found[_column(probe)] = score(probe, self.copy.vectors(rows))
        return found

    def baselines(self) -> list[dict[str, Any]]:
        """The baselines of the scores: one dictionary for each probe, on host 0.

        "majority" is the accuracy of always predicting the most frequent label of the training file. "bag_of_words" is the score of
        the same linear model on token counts, or, for pairs with scores, of the cosine similarity of these counts.
        """
        found = []
        for probe, (inputs, _) in zip(self.probes, self._rows, strict=False):
            counts = token_counts(inputs[0], max(self.copy.tokenizer.tokens) + 1)
            facts = {"name": probe.files.name, "kind": probe.files.kind, "column": _column(probe)}
            facts |= {"train": len(probe.train), "dev": len(probe.dev)}
            if probe.labels:
                most = np.bincount(probe.train_targets).argmax()
                facts |= {"labels": len(probe.labels), "majority": float(np.mean(probe.dev_targets == most))}
                facts["bag_of_words"] = score(probe, counts)
            else:
                facts["bag_of_words"] = _correlation(probe.dev_targets, overlap(counts, *probe.dev.T))
            found.append(facts)
        return found


def score(probe: ProbeExamples, vectors: npt.NDArray[Any]) -> float:
    """The accuracy, or for pairs with scores Spearman's correlation, of a linear model on vectors.

    Args:
        probe: the examples.
        vectors: the vectors of their texts, `(texts, width)`.
    """
    train, dev = (features_of(vectors[part], bool(probe.labels)) for part in (probe.train, probe.dev))
    if probe.labels:
        labels = predicted_labels(train, probe.train_targets, len(probe.labels), dev)
        return float(np.mean(labels == probe.dev_targets))
    return _correlation(probe.dev_targets, predicted_numbers(train, probe.train_targets, dev))


def _correlation(right, predicted):
    """Spearman's correlation; 0 for constant predictions."""
    found = spearman(right, predicted)
    return 0.0 if np.isnan(found) else found


def features_of(vectors: npt.NDArray[Any], ordered: bool) -> npt.NDArray[Any]:
    """The features of examples: for a text its vector u; for a pair |u − v| and u · v, and if the order matters also u and v.

    Args:
        vectors: `(examples, texts per example, width)`.
        ordered: whether the two texts of a pair have different roles, as in entailment.

    Reference: Conneau et al., 2017, section 3.1 (https://arxiv.org/abs/1705.02364); Tai et al., 2015, section 4.2, for similarity.
    """
    if vectors.shape[1] == 1:
        return vectors[:, 0]
    u, v = vectors[:, 0], vectors[:, 1]
    both = [np.abs(u - v), u * v]
    return np.concatenate([u, v, *both] if ordered else both, axis=1)
