"""What is attributed: one number that a task gives for texts, as a function of the vectors of their tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.data.batches import input_arrays, least_length, model_inputs
from keras_bert_rebuild.interpret.embedding_graph import EmbeddingGraph
from keras_bert_rebuild.interpret.located_tokens import LocatedTokens
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.gradients import value_and_gradient, without_history
from keras_bert_rebuild.tasks.text_rows import buckets_for, filled_up

BASELINES = ("mask", "pad", "zero")


@dataclass(frozen=True)
class Subject:
    """One number that a model gives for the texts of a user, and the rows that it reads for it."""

    tokens: LocatedTokens
    """The tokens of the rows, and the words they are from."""

    model: keras.Model
    """The model whose graph is read; `find_encoder` finds its encoder."""

    inputs: Mapping[str, np.ndarray]
    """Its inputs by name, `(rows, length)`, padded to one length."""

    value: Callable[[Any], Any]
    """From its outputs `(copies, rows, ...)` to the number of each copy, `(copies,)`; made of `keras.ops`."""

    target: str
    """The number in words, such as "logit of positive"."""

    reads: np.ndarray
    """How much of the number is read at each token of the last block, `(rows, length)`, sums to 1; for methods of attention."""

    outputs: Any = None
    """Symbolic tensors of the model's graph that `value` takes; None for the outputs of the model."""


def padded_inputs(model: keras.Model, ids: Any, segments: Any, pad_id: int, max_len: int, **given: Any) -> dict[str, np.ndarray]:
    """The inputs of a model for rows of tokens, by name, padded to one of the lengths that predictions are padded to.

    Args:
        model: whose inputs they are.
        ids, segments: lists of rows.
        pad_id: the id of padding.
        max_len: maximum number of tokens in a row.
        **given: rows of further inputs, or of `Input-Mask`, by name with `_` for `-`; padded with 0.
    """
    names = [tensor.name for tensor in model.inputs]
    masked = [np.zeros(len(row), "int32") for row in ids]
    rows, padding = model_inputs(names, ids, segments, pad_id, masked)
    rows = [given.get(name.replace("-", "_"), values) for name, values in zip(names, rows, strict=True)]
    longest = max(map(len, ids))
    length = model.inputs[0].shape[1] or least_length(buckets_for((), max(longest, max_len)), longest)
    arrays = input_arrays(rows, length, padding)
    return dict(zip(names, arrays if isinstance(arrays, tuple) else (arrays,), strict=True))


class SubjectFunction:
    """A `Subject` as a function of token vectors, evaluated in batches.

    Args:
        subject: the subject.
        tokenizer: of the task.
        baseline: what stands for a token that is absent: the vector of the tokenizer's "mask" or "pad", or "zero".
        batch_size: rows of a batch.

    Raises:
        ValueError: the baseline is unknown, or the tokenizer has no such token.
    """

    def __init__(self, subject: Subject, tokenizer: Any, baseline: str = "mask", batch_size: int = 32) -> None:
        if baseline not in BASELINES:
            raise ValueError(f"baseline must be one of {', '.join(BASELINES)}; got {baseline!r}.")
        token = {"mask": tokenizer.mask_id, "pad": tokenizer.pad_id}.get(baseline, 0)
        if token is None:
            raise ValueError(f"baseline must be pad or zero for a tokenizer without a mask token; got {baseline!r}.")
        self.subject, self.baseline = subject, baseline
        self.graph = EmbeddingGraph(subject.model, subject.outputs)
        rows, length = subject.inputs["Input-Token"].shape
        self.words = np.full((rows, length), -1, "int64")
        for row, words in enumerate(subject.tokens.words):
            self.words[row, : len(words)] = words
        self.vectors = self.graph.vectors(subject.inputs["Input-Token"])
        absent = np.zeros_like(self.vectors[0, 0]) if baseline == "zero" else self.graph.vectors([token])[0]
        self.absent = np.where((self.words >= 0)[..., None], absent, self.vectors).astype("float32")
        self.copies = max(1, batch_size // rows)

    @property
    def word_count(self) -> int:
        """Number of words of all texts."""
        return len(self.subject.tokens.word_spans)

    def values(self, count: int, vectors_of: Callable[[slice], np.ndarray]) -> np.ndarray:
        """The number for many variants of the vectors, float64 `(count,)`.

        Args:
            count: how many variants there are.
            vectors_of: from a slice of their numbers to their vectors `(variants, rows, length, width)`.
        """
        answer = lambda vectors: self.subject.value(self.graph(vectors, self.subject.inputs))  # noqa: E731
        found = [without_history(answer, ops.convert_to_tensor(vectors)) for vectors in self._chunks(count, vectors_of)]
        return np.concatenate([ops.convert_to_numpy(values) for values in found]).astype("float64")[:count]

    def values_and_gradients(self, count: int, vectors_of: Callable[[slice], np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """As `values`, and for every variant the gradient by its vectors, `(rows, length, width)`."""

        def summed(vectors):
            values = self.subject.value(self.graph(vectors, self.subject.inputs))
            return ops.sum(values), values

        values, gradients = [], []
        for vectors in self._chunks(count, vectors_of):
            (_, found), gradient = value_and_gradient(summed, vectors, auxiliary=True)
            values.append(ops.convert_to_numpy(found))
            gradients += list(ops.convert_to_numpy(gradient))
        return np.concatenate(values).astype("float64")[:count], gradients[:count]

    def value(self, vectors: np.ndarray) -> float:
        """The number for one variant `(rows, length, width)`."""
        return float(self.values(1, lambda _: vectors[None])[0])

    def with_words(self, present: np.ndarray) -> np.ndarray:
        """The vectors with only some words, the others replaced by the baseline: `(variants, rows, length, width)`.

        Args:
            present: whether each word is there, bool `(variants, words)`.
        """
        # A column more, for tokens of no word: their number -1 finds it.
        stays = np.concatenate([present, np.ones((len(present), 1), bool)], axis=1)[:, self.words]
        return np.where(stays[..., None], self.vectors, self.absent)

    def _chunks(self, count, vectors_of):
        """The vectors of batches; where every shape is compiled, the last is filled up to a power of two."""
        for first in range(0, count, self.copies):
            vectors = np.asarray(vectors_of(slice(first, min(first + self.copies, count))), "float32")
            yield vectors[filled_up(len(vectors), self.copies)] if traits.compiles_each_shape() else vectors
