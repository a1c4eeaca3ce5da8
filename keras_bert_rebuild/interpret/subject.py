"""The subject of an attribution: one output of a task for texts as a function of the token vectors, and the words of its rows."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.data.batches import input_arrays, least_length, model_inputs
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.gradients import value_and_gradient, without_history
from keras_bert_rebuild.models.encoder import TOKEN
from keras_bert_rebuild.models.encoder_view import graph_after_tokens
from keras_bert_rebuild.models.named_tensors import token_mask
from keras_bert_rebuild.tasks.text_rows import buckets_for, filled_up
from keras_bert_rebuild.tasks.words_of_tokens import words_of_text

# The graphs of a model by the ids of their outputs. The symbolic tensors are retained, since an id may otherwise be reused.
_GRAPHS: weakref.WeakKeyDictionary[keras.Model, dict] = weakref.WeakKeyDictionary()

BASELINES = ("mask", "pad", "zero")


@dataclass(frozen=True)
class LocatedTokens:
    """The tokens in the rows of a model, and the words of the texts that they belong to."""

    texts: tuple[str, ...]
    """The user's texts."""

    ids: tuple[np.ndarray, ...]
    """For every row the ids of its tokens, `(length,)`."""

    owners: tuple[np.ndarray, ...]
    """For every token the index of its text; -1 for special tokens and others outside the texts."""

    spans: tuple[np.ndarray, ...]
    """For every token the offsets of its first character and of the one after its last, in its text, `(length, 2)`."""

    words: tuple[np.ndarray, ...]
    """For every token the index of its word among those of all texts; -1 for tokens that no method replaces."""

    word_spans: tuple[tuple[int, int, int], ...]
    """For every word the index of its text, and the offsets of its first character and of the one after its last."""


def located_tokens(
    windows: Any,
    owners: Sequence[Sequence[int]],
    texts: Sequence[str],
    before: Sequence[int] | None = None,
    fixed: Sequence[int] = (),
) -> LocatedTokens:
    """Find the words of texts in the rows of a task.

    Args:
        windows: `Windows`.
        owners: for every row the indices of its first and, if there is one, of its second text.
        texts: the user's texts.
        before: for every text the number of characters that the task put before it, such as a prompt; None for none.
        fixed: ids of tokens that no method replaces, such as the mask to fill.

    Example:

    >>> from keras_bert_rebuild import WordPieceTokenizer
    >>> from keras_bert_rebuild.tasks.text_rows import encode_windows
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##like", "cats", "!"])
    >>> windows = encode_windows(tokenizer, ["Cats: UNLIKE!"], max_len=16, stride=0)
    >>> tokens = located_tokens(windows, [(0,)], ["Cats: UNLIKE!"])
    >>> [tokens.texts[text][start:end] for text, start, end in tokens.word_spans]
    ['Cats', ':', 'UNLIKE', '!']
    """
    shifts = [0] * len(texts) if before is None else before
    of_token = [np.full(len(ids), -1, "int64") for ids in windows.ids]
    words = [np.full(len(ids), -1, "int64") for ids in windows.ids]
    spans = [np.zeros((len(ids), 2), "int64") for ids in windows.ids]
    word_spans: list[tuple[int, int, int]] = []
    for number, text in enumerate(texts):
        # A text has several rows if it is long, or if it is compared with several others.
        own = [(row, side) for row, sides in enumerate(owners) for side, owner in enumerate(sides) if owner == number]
        offsets, numbers = [], []
        for row, side in own:
            shifted = np.asarray(windows.offsets[row], "int64") - shifts[number]
            inside = (np.asarray(windows.sides[row]) == side) & (shifted[:, 1] > 0)
            offsets.append(np.maximum(shifted, 0))
            numbers.append(np.where(inside & (np.asarray(windows.word_ids[row]) >= 0), windows.word_ids[row], -1))
            of_token[row][inside], spans[row][inside] = number, offsets[-1][inside]
        word_numbers, bounds = words_of_text(SimpleNamespace(offsets=offsets, word_ids=numbers), range(len(own)), text)
        for (row, _), of_row in zip(own, word_numbers, strict=True):
            words[row] = np.where((of_row >= 0) & ~np.isin(windows.ids[row], fixed), of_row + len(word_spans), words[row])
        word_spans += [(number, int(start), int(end)) for start, end in bounds]
    return LocatedTokens(
        tuple(texts), tuple(np.asarray(ids) for ids in windows.ids), tuple(of_token), tuple(spans), tuple(words), tuple(word_spans)
    )


@dataclass(frozen=True)
class Subject:
    """One output of a model for the user's texts, and the rows that the model reads."""

    tokens: LocatedTokens
    """The tokens of the rows, and the words they belong to."""

    model: keras.Model
    """The model whose graph is read; `find_encoder` finds its encoder."""

    inputs: Mapping[str, np.ndarray]
    """Its inputs by name, `(rows, length)`, padded to one length."""

    value: Callable[[Any], Any]
    """A function, written in `keras.ops`, from its outputs `(copies, rows, ...)` to one number per copy, `(copies,)`."""

    target: str
    """A description of the number, such as "logit of positive"."""

    reads: np.ndarray
    """The weight of each token of the last block in the number, `(rows, length)`, with a sum of 1; for attention methods."""

    outputs: Any = None
    """Symbolic tensors of the model's graph that `value` takes; None for the outputs of the model."""

    answer: str = ""
    """What the task answers, as a sentence; "" where that is the number itself."""


def padded_inputs(model: keras.Model, ids: Any, segments: Any, pad_id: int, max_len: int, **further: Any) -> dict[str, np.ndarray]:
    """The inputs of a model for rows of tokens, by name, padded to one of the lengths that predictions are padded to.

    Args:
        model: the model.
        ids, segments: lists of rows.
        pad_id: the id of padding.
        max_len: maximum number of tokens in a row.
        **further: rows of further inputs, such as `Input-Mask`, by name with `_` for `-`; padded with 0.
    """
    names = [tensor.name for tensor in model.inputs]
    masked = [np.zeros(len(row), "int32") for row in ids]
    rows, padding = model_inputs(names, ids, segments, pad_id, masked)
    rows = [further.get(name.replace("-", "_"), values) for name, values in zip(names, rows, strict=True)]
    longest = max(map(len, ids))
    length = model.inputs[0].shape[1] or least_length(buckets_for((), max(longest, max_len)), longest)
    arrays = input_arrays(rows, length, padding)
    return dict(zip(names, arrays if isinstance(arrays, tuple) else (arrays,), strict=True))


class EmbeddingGraph:
    """The outputs of a model as a function of its token vectors, before positions and segments are added.

    It runs the part of the model's functional graph after its token table, with the weights of the model.

    Args:
        model: a functional model of this library.
        outputs: symbolic tensors of its graph to return; None for the outputs of the model.

    Raises:
        ValueError: the model has no token table in its own graph.
    """

    def __init__(self, model: keras.Model, outputs: Any = None) -> None:
        self.layers = {layer.name: layer for layer in model.layers}
        if TOKEN not in self.layers:
            raise ValueError(f"the model must have the layer {TOKEN} in its own graph; {model.name} has none.")
        self.tokens = self.layers[TOKEN]
        self.names = [tensor.name for tensor in model.inputs]
        outputs = model.outputs if outputs is None else outputs
        graphs = _GRAPHS.setdefault(model, {})
        key = tuple(map(id, keras.tree.flatten(outputs)))
        if key not in graphs:
            graphs[key] = graph_after_tokens(model, outputs), outputs
        self.graph = graphs[key][0]

    def vectors(self, ids: Any) -> np.ndarray:
        """The rows of the token table for ids `(...)`: float32 `(..., width)`."""
        vectors, _ = self.tokens(ops.convert_to_tensor(np.asarray(ids, "int32")))
        return ops.convert_to_numpy(ops.cast(ops.stop_gradient(vectors), "float32"))

    def __call__(self, vectors: Any, inputs: Mapping[str, np.ndarray]) -> Any:
        """The outputs for token vectors, as in prediction.

        Args:
            vectors: a tensor `(copies, rows, length, width)`.
            inputs: the inputs of the model by name, `(rows, length)`, for everything except the vectors, such as segments and
                padding.

        Returns:
            The output, or a list of outputs, `(copies, rows, ...)`.
        """
        copies, rows = vectors.shape[:2]
        tensors = {name: ops.convert_to_tensor(np.tile(inputs[name], (copies, 1)).astype("int32")) for name in self.names}
        mask = token_mask(self.layers, tensors)
        flat = ops.cast(ops.reshape(vectors, (copies * rows, *vectors.shape[2:])), self.tokens.compute_dtype)
        _, table = self.tokens(ops.zeros((1, 1), "int32"))
        arguments = [flat, ops.stop_gradient(table), *(tensors[name] for name in self.names)]
        # Not the layer's __call__, which warns if a tensor carries a mask.
        outputs = self.graph.call(arguments, training=False, mask=[mask] + [None] * (len(arguments) - 1))
        return keras.tree.map_structure(lambda x: ops.reshape(x, (copies, rows, *x.shape[1:])), outputs)


class SubjectFunction:
    """A `Subject` as a function of token vectors, evaluated in batches.

    Args:
        subject: the subject.
        tokenizer: the tokenizer of the task.
        baseline: the replacement of an absent token: the vector of the tokenizer's "mask" or "pad", or "zero".
        batch_size: rows per batch.

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
            count: number of variants.
            vectors_of: a function from a slice of variants to their vectors `(variants, rows, length, width)`.
        """
        answer = lambda vectors: self.subject.value(self.graph(vectors, self.subject.inputs))  # noqa: E731
        answers = [without_history(answer, ops.convert_to_tensor(vectors)) for vectors in self._chunks(count, vectors_of)]
        return np.concatenate([ops.convert_to_numpy(values) for values in answers]).astype("float64")[:count]

    def values_and_gradients(self, count: int, vectors_of: Callable[[slice], np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """As `values`, plus the gradients with respect to the vectors, `(rows, length, width)` for every variant."""

        def summed(vectors):
            values = self.subject.value(self.graph(vectors, self.subject.inputs))
            return ops.sum(values), values

        values, gradients = [], []
        for vectors in self._chunks(count, vectors_of):
            (_, value), gradient = value_and_gradient(summed, vectors, auxiliary=True)
            values.append(ops.convert_to_numpy(value))
            gradients += list(ops.convert_to_numpy(gradient))
        return np.concatenate(values).astype("float64")[:count], gradients[:count]

    def value(self, vectors: np.ndarray) -> float:
        """The number for one variant `(rows, length, width)`."""
        return float(self.values(1, lambda _: vectors[None])[0])

    def with_words(self, present: np.ndarray) -> np.ndarray:
        """The vectors with some words replaced by the baseline: `(variants, rows, length, width)`.

        Args:
            present: whether each word is kept, bool `(variants, words)`.
        """
        # One more column for tokens outside words, whose index -1 selects it.
        stays = np.concatenate([present, np.ones((len(present), 1), bool)], axis=1)[:, self.words]
        return np.where(stays[..., None], self.vectors, self.absent)

    def _chunks(self, count, vectors_of):
        """The vectors in batches; if every shape is compiled, the last batch is padded to a power of two."""
        for first in range(0, count, self.copies):
            vectors = np.asarray(vectors_of(slice(first, min(first + self.copies, count))), "float32")
            yield vectors[filled_up(len(vectors), self.copies)] if traits.compiles_each_shape() else vectors
