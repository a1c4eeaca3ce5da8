"""Probes of a model in training: how well a linear function of its vectors predicts the labels of files, beside baselines."""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.data.batches import model_inputs
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.files.yaml_files import read_yaml, write_yaml
from keras_bert_rebuild.kernels import unwritten
from keras_bert_rebuild.layers.keras_layers import skipped_initialization
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.recipes.metrics_table import LARGEST, read_curves
from keras_bert_rebuild.recipes.probing.linear_probe import overlap, predicted_labels, predicted_numbers, token_counts
from keras_bert_rebuild.recipes.probing.probe_files import ProbeExamples
from keras_bert_rebuild.tasks.embedding_model import pooled_model
from keras_bert_rebuild.tasks.metrics.classes import spearman
from keras_bert_rebuild.tasks.row_predictions import predict_rows
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.training.distributed.distribution import on_one_device
from keras_bert_rebuild.training.distributed.hosts import check_agreement, host_index, whole_array

# The file of baselines in the folder of a run; the keys in it, and their names in reports and charts.
FILE = "probes.yaml"
BASELINES = {"majority": "most frequent label", "bag_of_words": "bag of words", "start": "before training"}

METRICS = {"classification": "accuracy", "similarity": "spearman"}
BATCH_SIZE = 32


class EncoderCopy:
    """An encoder with its own weights, for rows of one sequence, on the first device of host 0; empty on other hosts.

    The model in training may have packed rows, sharded weights and a compiled step; none of these is touched. Its weights are
    copied before every use, which needs memory for one more encoder. The random state of the process is not changed.

    Args:
        model: the model in training, with the layer names of `build_model`.
        tokenizer: the model's tokenizer.
        max_len: maximum number of tokens in a row.
    """

    def __init__(self, model: keras.Model, tokenizer: BatchTokenizer, max_len: int) -> None:
        self.tokenizer, self.max_len, self.here = tokenizer, max_len, host_index() == 0
        names = dict.fromkeys(path.partition("/")[0] for path in weights_of(model.config.encoder(), ()))
        layers = {layer.name: layer for layer in model.layers}
        self._trained = [layers[name] for name in names]
        if self.here:
            states = random.getstate(), np.random.get_state()
            with on_one_device(), skipped_initialization(unwritten):
                self._encoder = build_model(model.config)
                self._pooled = pooled_model(self._encoder, ["mean"])
            random.setstate(states[0])  # Keras would draw seeds for dropout layers without one
            np.random.set_state(states[1])

    def update(self) -> None:
        """Copy the current weights of the model; all hosts must call this."""
        for layer in self._trained:
            arrays = [whole_array(weight.value) for weight in layer.weights]
            if self.here:
                for weight, array in zip(self._encoder.get_layer(layer.name).weights, arrays, strict=True):
                    weight.assign(array)

    def rows(self, texts: Sequence[str]) -> tuple[Any, Any]:
        """The inputs of the encoder for texts, which can be passed to `vectors` many times."""
        encoded = self.tokenizer.encode_batch(list(texts), max_len=self.max_len)
        names = [tensor.name for tensor in self._pooled.inputs]
        return model_inputs(names, list(encoded.ids), list(encoded.segments), self.tokenizer.pad_id)

    def vectors(self, rows: tuple[Any, Any]) -> npt.NDArray[Any]:
        """The mean output of the last block over the tokens of each text, `(texts, width)`; equal rows give equal batches."""
        with on_one_device():
            return np.stack(predict_rows(self._pooled, *rows, max_len=self.max_len, batch_size=BATCH_SIZE))


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


def record_baselines(probes: Probes, folder: str | os.PathLike[str], step: int, again: bool = False) -> None:
    """Write the baselines of probes and the scores of the initial weights, unless they are recorded already.

    Args:
        probes: the probes of the run.
        folder: the folder of the run.
        step: the optimizer step that the run starts at.
        again: compute the scores even if they are recorded, so that compilation happens now.
    """
    file = Path(folder) / FILE
    known = file.is_file()
    check_agreement({f"whether there is {file}": known})
    if known and not again:
        return
    scores = probes.scores()
    if host_index() == 0 and not known:
        facts = [{**facts, "start": scores[facts["column"]]} for facts in probes.baselines()]
        write_yaml(file, {"step": step, "probes": facts})


def read_baselines(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The recorded baselines of each probe of a run; empty for a run without probes.

    Raises:
        ValueError: the file is not a list of baselines.
    """
    file = Path(folder) / FILE
    found = read_yaml(file).get("probes", []) if file.is_file() else []
    if not isinstance(found, list) or not all(_is_described(facts) for facts in found):
        raise ValueError(f"{file} must have a list of probes with names, columns and numbers.")
    return found


def _is_described(facts):
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name), str) for name in ("name", "column")):
        return False
    return all(is_number(facts[key]) and abs(facts[key]) <= LARGEST for key in BASELINES if key in facts)


def probe_report(folder: str | os.PathLike[str]) -> list[str]:
    """A line for each probe of a run: its last score and its baselines."""
    baselines = read_baselines(folder)
    curves = read_curves(folder) if baselines else {}
    lines = []
    for facts in baselines:
        if curves.get(facts["column"]):
            beside = ", ".join(f"{words} {facts[key]:.3f}" for key, words in BASELINES.items() if key in facts)
            metric = facts["column"].rpartition("_")[2]
            lines.append(f"probe    {facts['name']}: {metric} {curves[facts['column']][-1][1]:.3f} ({beside})")
    return lines
