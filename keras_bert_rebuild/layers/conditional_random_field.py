"""Conditional random field over labels: the layer with its transition scores, and Viterbi decoding in NumPy."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_bert_rebuild.layers.arguments import BertLayer
from keras_bert_rebuild.layers.masks import MaskOutsideGraph


def viterbi(scores, transitions):
    """The highest-scoring sequence of labels.

        argmax begin[y_1] + Σ_i scores[i, y_i] + Σ_i next[y_i-1, y_i] + end[y_n]

    Args:
        scores: scores of every label at every position, `(length, labels)`.
        transitions: `(labels + 2, labels)`: the score of the column's label after the row's label; the last two rows have the
            scores of starting and of ending with a label; −inf forbids a transition.

    Returns:
        The labels, `(length,)`; the best label at each position if every sequence is forbidden.

    Reference: Viterbi, 1967; Lafferty, McCallum and Pereira, 2001.
    """
    length, labels = np.shape(scores)
    if not length:
        return np.zeros(0, "int64")
    between, begin, end = transitions[:labels], transitions[labels], transitions[labels + 1]
    score = begin + scores[0]
    previous = np.zeros((length, labels), "int64")
    for i in range(1, length):
        candidates = score[:, None] + between
        previous[i] = candidates.argmax(0)
        score = candidates.max(0) + scores[i]
    score = score + end
    if score.max() == -np.inf:
        return np.argmax(scores, axis=1)
    best = np.zeros(length, "int64")
    best[-1] = score.argmax()
    for i in range(length - 1, 0, -1):
        best[i - 1] = previous[i, best[i]]
    return best


def marginals(scores, transitions):
    """The probability of every label at every position, over all sequences, `(length, labels)`; arguments as for `viterbi`.

    Reference: the forward-backward algorithm; Lafferty, McCallum and Pereira, 2001, section 3.
    """
    length, labels = np.shape(scores)
    if not length:
        return np.zeros((0, labels))
    between, begin, end = transitions[:labels], transitions[labels], transitions[labels + 1]
    before, after = np.zeros((length, labels)), np.zeros((length, labels))
    before[0], after[-1] = begin, end
    for i in range(1, length):
        before[i] = np.logaddexp.reduce((before[i - 1] + scores[i - 1])[:, None] + between, axis=0)
        after[-1 - i] = np.logaddexp.reduce(between + scores[-i] + after[-i], axis=1)
    total = before + scores + after
    return np.exp(total - np.logaddexp.reduce(total, axis=1, keepdims=True))


@keras.saving.register_keras_serializable(package="keras_bert_rebuild")
class ConditionalRandomField(MaskOutsideGraph, BertLayer):
    """Learns which labels follow each other, in addition to the scores of labels at every position.

        score(y) = begin[y_1] + Σ_i inputs[i, y_i] + Σ_i next[y_i-1, y_i] + end[y_n]
        p(y) = exp(score(y)) / Σ_y' exp(score(y'))

    Since a Keras loss sees the outputs of a model but not its weights, the layer passes the scores on and appends its weights:
    `outputs[:, :length]` are the inputs, followed by a row of `next` for each label, `begin` and `end`, the same for every example
    of the batch. `ConditionalRandomFieldLoss` takes these outputs, and `decode` finds the best labels. The weights are initialised
    to 0, so that at first each label is predicted independently.

    Input shape: `(batch, length, labels)`.
    Output shape: `(batch, length + labels + 2, labels)`, float32.
    Mask: passed on for the positions; None while the graph is built (see `Add`).

    Example:

    >>> layer = ConditionalRandomField()
    >>> outputs = layer(np.zeros((2, 5, 3), "float32"))
    >>> tuple(outputs.shape)
    (2, 10, 3)

    Reference: Lafferty, McCallum and Pereira, 2001; on top of a network, Lample et al., 2016, section 2.2
    (https://arxiv.org/abs/1603.01360). The weights are those of pytorch-crf, there called `transitions`, `start_transitions` and
    `end_transitions`.
    """

    def build(self, input_shape):
        labels = input_shape[-1]
        if labels is None:
            raise ValueError(f"{self.name} must have inputs with a known number of labels; got the shape {tuple(input_shape)}.")
        self.next = self.add_weight(shape=(labels, labels), initializer="zeros", name="next")
        self.begin = self.add_weight(shape=(labels,), initializer="zeros", name="begin")
        self.end = self.add_weight(shape=(labels,), initializer="zeros", name="end")

    def call(self, inputs):
        weights = ops.concatenate([self.next, self.begin[None], self.end[None]], axis=0)
        weights = ops.cast(weights, "float32")[None] + ops.zeros((ops.shape(inputs)[0], 1, 1), "float32")
        return ops.concatenate([ops.cast(inputs, "float32"), weights], axis=1)  # (B, L, labels) → (B, L + labels + 2, labels)

    def mask_of(self, inputs: Any, mask: Any) -> Any:
        if mask is None:
            return None
        weights = ops.ones((ops.shape(inputs)[0], inputs.shape[-1] + 2), "bool")
        return ops.concatenate([ops.cast(mask, "bool"), weights], axis=1)

    def compute_output_spec(self, inputs):
        batch, length, labels = inputs.shape
        length = None if length is None else length + labels + 2
        return keras.KerasTensor((batch, length, labels), dtype="float32")

    @property
    def transitions(self) -> npt.NDArray[Any]:
        """`next`, `begin` and `end` stacked, `(labels + 2, labels)` float32."""
        rows = (ops.convert_to_numpy(weight) for weight in (self.next, self.begin, self.end))
        return np.concatenate([np.atleast_2d(row).astype("float32") for row in rows])

    @staticmethod
    def decode(outputs: Any, mask: Any = None) -> npt.NDArray[np.int32]:
        """The best labels according to the outputs of the layer.

        Args:
            outputs: `(batch, length + labels + 2, labels)`, from `predict`.
            mask: `(batch, length)`, true at positions to label; other positions get label 0. None for all positions.

        Returns:
            Labels `(batch, length)`, int32.

        Raises:
            ValueError: a shape is wrong.
        """
        outputs = np.asarray(ops.convert_to_numpy(outputs), "float64")
        if outputs.ndim != 3 or outputs.shape[1] < outputs.shape[2] + 2:
            raise ValueError(f"expected outputs (batch, length + labels + 2, labels); got the shape {outputs.shape}.")
        length = outputs.shape[1] - outputs.shape[2] - 2
        labelled = np.ones((len(outputs), length), bool) if mask is None else np.asarray(ops.convert_to_numpy(mask), bool)
        if labelled.shape != (len(outputs), length):
            raise ValueError(f"expected a mask of shape {(len(outputs), length)}; got {labelled.shape}.")
        best = np.zeros((len(outputs), length), np.int32)
        for row, (values, is_labelled) in enumerate(zip(outputs, labelled, strict=True)):
            best[row, is_labelled] = viterbi(values[:length][is_labelled], values[length:])
        return best
