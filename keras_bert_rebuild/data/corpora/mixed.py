"""Corpora made of others: some documents of one, and several as one, each with a given share of an endless sequence of examples."""

import functools
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_bert_rebuild.data.corpora.document_groups import examples_of_documents, joined_rows, rows_of
from keras_bert_rebuild.data.corpora.documents import corpus_digest
from keras_bert_rebuild.data.corpora.offsets import JoinedOffsets, SelectedOffsets
from keras_bert_rebuild.data.corpora.token_store import TokenStore, checked_positions, span_indexes
from keras_bert_rebuild.data.random_numbers import keys, permuted
from keras_bert_rebuild.files.limits import is_number

# In every window of this many examples each corpus has exactly its share, rounded to an integer.
WINDOW = 1024


class SomeDocuments:
    """Some documents of a corpus as a separate corpus; neither token ids nor offsets are copied.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes.
        documents: the indices of the documents, ascending, at least one; or ranges of them, first and stop, `(ranges, 2)`. Memory
            grows with the number of ranges.
        without: the indices of passages to leave out. The text before and after each becomes two documents, so that no passage
            follows one that it did not follow before. None if documents stay whole.

    Attributes:
        document_starts, num_tokens, vocabulary, cased: see `TokenCorpus`.
        texts: the index, from 0, of the text that each document is part of, ascending, int64 `(documents,)`; None if all are whole.
        repeated: the fraction of the passages that training has in another context, see `unseen`.
    """

    repeated = 0.0

    def __init__(self, corpus, documents, without=None):
        ranges = _ranges(np.asarray(documents)) if np.ndim(documents) == 1 else documents
        self.texts = None
        if without is None:
            tokens = corpus.document_starts[ranges]
        else:
            indexes = np.concatenate([np.arange(*each) for each in ranges])
            first, stop = np.searchsorted(corpus.passage_starts, corpus.document_starts[np.stack([indexes, indexes + 1])])
            numbers = np.concatenate([np.arange(*each) for each in zip(first, stop, strict=True)])
            texts = np.repeat(np.arange(len(first)), stop - first)
            remaining = ~np.isin(numbers, without)
            texts, numbers = texts[remaining], numbers[remaining]
            begins = np.flatnonzero((np.diff(texts, prepend=-1) > 0) | (np.diff(numbers, prepend=-1) > 1))
            self.texts, last = texts[begins], np.append(begins, len(numbers))[1:] - 1
            ranges = indexes[self.texts][:, None] + np.arange(2)
            tokens = corpus.passage_starts[np.stack([numbers[begins], numbers[last] + 1], axis=1)]
        self._tokens, begins = tokens, np.append(0, np.cumsum(tokens[:, 1] - tokens[:, 0]))
        self._corpus, self._begins, self._shifts = corpus, begins, tokens[:, 0] - begins[:-1]
        self.document_starts = SelectedOffsets(corpus.document_starts, *ranges.T, tokens[:, 0], begins)
        self.num_tokens = int(begins[-1])
        self.vocabulary = corpus.vocabulary
        self.cased = corpus.cased

    @functools.cached_property
    def passage_starts(self):
        """See `TokenCorpus`."""
        offsets = self._corpus.passage_starts
        return SelectedOffsets(offsets, *np.searchsorted(offsets, self._tokens.T), self._tokens[:, 0], self._begins)

    def ids_at(self, positions):
        """Token ids at positions in these documents, int32, in the shape of `positions`."""
        positions = checked_positions(positions, self.num_tokens)
        return self._corpus.ids_at(positions + self._shifts[span_indexes(self._begins, positions)])


class MixedCorpus:
    """The documents of several corpora, from which training samples by weight.

    The documents are those of the corpora, concatenated; nothing is copied, ids are read from the corpora. `pretrain` and
    `pretraining_batches` draw examples (rows, with packing) from every corpus by its share. Each corpus has its own epochs, so that
    its documents are read equally often; a small corpus with a large share is repeated more often than the others.

    Args:
        corpora: `TokenStore`s, their folders, or other `TokenCorpus`es, all with the same vocabulary.
        weights: a number above 0 per corpus, normalised to shares. None for the numbers of tokens, so that all documents are read
            equally often.

    Attributes:
        parts: the corpora.
        shares: the share of each corpus in the examples, at least 1/1,024, float64.
        starts: the position of the first token of each corpus, and last the number of tokens, int64 `(parts + 1,)`.
        document_starts, passage_starts, num_tokens, vocabulary, cased: see `TokenCorpus`.

    Raises:
        ValueError: the vocabularies differ; or a weight is missing, not above 0, or smaller than one example in 1,024.
    """

    def __init__(self, corpora: Sequence[Any], weights: Sequence[float] | None = None) -> None:
        self.parts = [TokenStore(corpus) if isinstance(corpus, (str, os.PathLike)) else corpus for corpus in corpora]
        names = [str(getattr(part, "path", f"corpus {number}")) for number, part in enumerate(self.parts)]
        if not self.parts:
            raise ValueError("expected at least one corpus to mix; got none.")
        for name, part in zip(names, self.parts, strict=True):
            if list(part.vocabulary) != list(self.parts[0].vocabulary) or part.cased != self.parts[0].cased:
                raise ValueError(
                    f"corpora to mix must have the same vocabulary and case; those of {name} differ from those of {names[0]}."
                )
        self.vocabulary, self.cased = self.parts[0].vocabulary, self.parts[0].cased
        self.starts = np.cumsum([0, *(part.num_tokens for part in self.parts)])
        self.num_tokens = int(self.starts[-1])
        self.shares = _shares(np.diff(self.starts) if weights is None else weights, names)

    def ids_at(self, positions: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The ids at positions, int32, in the shape of `positions`."""
        positions = checked_positions(positions, self.num_tokens)
        result = np.empty(positions.shape, "int32")
        of_part = np.broadcast_to(span_indexes(self.starts, positions), positions.shape)
        for number, part in enumerate(self.parts):
            if (inside := of_part == number).any():
                result[inside] = part.ids_at(positions[inside] - self.starts[number])
        return result

    @functools.cached_property
    def passage_starts(self) -> JoinedOffsets:
        """Offset of every passage, and last the number of tokens: int64, `(passages + 1,)`, ascending."""
        return self._joined("passage_starts")

    @functools.cached_property
    def document_starts(self) -> JoinedOffsets:
        """Offset of every document, and last the number of tokens: int64, `(documents + 1,)`, ascending."""
        return self._joined("document_starts")

    @functools.cached_property
    def sha256(self) -> str:
        """Digest that identifies the corpora and their shares."""
        listed = "".join(f"{corpus_digest(part)} {share!r}\n" for part, share in zip(self.parts, self.shares.tolist(), strict=True))
        return hashlib.sha256(listed.encode()).hexdigest()

    def with_parts(self, parts: Sequence[Any]) -> "MixedCorpus":
        """A mixture of other corpora, such as some documents of each, with the same shares."""
        return MixedCorpus(parts, self.shares.tolist())

    def verify(self) -> None:
        """Verify every corpus that supports it: see `TokenStore.verify`."""
        for part in self.parts:
            if hasattr(part, "verify"):
                part.verify()

    def described(self) -> list[dict[str, Any]]:
        """The corpora as plain values: name of the folder, tokens, documents and share of each."""
        return [
            {
                **({"name": Path(part.path).name} if hasattr(part, "path") else {}),
                "tokens": int(part.num_tokens),
                "documents": len(part.document_starts) - 1,
                "share": round(float(share), 6),
            }
            for part, share in zip(self.parts, self.shares, strict=True)
        ]

    def _joined(self, name):
        offsets = [getattr(part, name) for part in self.parts]
        return JoinedOffsets(offsets.__getitem__, [len(of_part) - 1 for of_part in offsets], self.starts)


def _ranges(indexes):
    """Ascending indices as ranges, first and stop, int64 `(ranges, 2)`."""
    gaps = np.flatnonzero(np.diff(indexes) > 1) + 1
    return np.stack([indexes[np.append(0, gaps)], indexes[np.append(gaps, len(indexes)) - 1] + 1], axis=1)


def window_quotas(shares):
    """The number of examples of each corpus in a window, integers that sum to `WINDOW`, by largest remainders."""
    quotas = np.floor(shares * WINDOW).astype("int64")
    largest = np.argsort(quotas - shares * WINDOW, kind="stable")
    quotas[largest[: WINDOW - quotas.sum()]] += 1
    return quotas


def _shares(weights, names):
    weights = list(weights)
    if len(weights) != len(names):
        raise ValueError(f"expected a weight for each of {len(names)} corpora; got {len(weights)}.")
    for weight, name in zip(weights, names, strict=True):
        if not (is_number(weight) and weight > 0 and math.isfinite(weight)):
            raise ValueError(f"the weight of a corpus must be a number above 0; got {weight!r} for {name}.")
    shares = np.array(weights, "float64") / math.fsum(weights)
    for quota, share, name in zip(window_quotas(shares), shares, names, strict=True):
        if not quota:
            raise ValueError(f"a corpus must have at least one example in {WINDOW:,}; the share of {name} is {share:.2e}.")
    return shares


def examples_of(store, make, seed):
    """The examples of a corpus, or of the corpora of a `MixedCorpus`.

    Args:
        store: a corpus.
        make: a function from `Documents` and a seed to their `Examples` or `PackedRows`.
        seed: an integer.
    """
    if not hasattr(store, "parts"):
        return examples_of_documents(store, make, seed)
    # Equally numbered examples of different corpora have different random numbers.
    examples = [examples_of_documents(part, make, int(keys(seed, number, 1))) for number, part in enumerate(store.parts)]
    return MixedExamples(store, examples, seed)


class MixedExamples:
    """Examples of several corpora, with the interface of those of one corpus.

    The endless sequence is divided into windows of 1,024 examples. In each window every corpus has its share, in an order that
    differs between windows; its examples continue where the previous window ended. So the example at any position can be computed
    from the position alone.

    Args:
        store: the `MixedCorpus`.
        examples: the `Examples` of each corpus, or the `PackedRows` of each.
        seed: an integer.
    """

    def __init__(self, store, examples, seed):
        self._examples, self._seed = examples, seed
        self._quotas = window_quotas(store.shares)
        self._ends = np.cumsum(self._quotas)
        self._token_starts = store.starts
        self._document_starts = np.cumsum([0, *(len(part.document_starts) - 1 for part in store.parts)])

    def __len__(self):
        """Number of examples in as many windows as it takes to read every corpus at least once."""
        return max(-(-len(of_part) // int(quota)) for of_part, quota in zip(self._examples, self._quotas, strict=True)) * WINDOW

    @property
    def length(self):
        """Maximum number of tokens of a span."""
        return self._examples[0].length

    def at(self, positions):
        """The spans or pieces at positions in the sequence: see `Examples.at` and `PackedRows.at`."""
        windows, slots = np.divmod(np.asarray(positions, "int64"), WINDOW)
        slots = permuted(keys(self._seed, windows, 0), WINDOW, slots)
        parts = np.searchsorted(self._ends, slots, side="right")
        indexes = windows * self._quotas[parts] + slots - (self._ends - self._quotas)[parts]
        return joined_rows(parts, lambda number, rows: self._moved(self._examples[number].at(indexes[rows]), number, 1))

    def from_other_documents(self, spans, draws):
        """For every span, one of another document of the same corpus: see `Examples.from_other_documents`."""
        parts = np.searchsorted(self._document_starts, spans.documents, side="right") - 1

        def in_part(number, rows):
            some = self._moved(rows_of(spans, rows), number, -1)
            return self._moved(self._examples[number].from_other_documents(some, draws[rows]), number, 1)

        return joined_rows(parts, in_part)

    def _moved(self, spans, number, sign):
        """Shift positions and document indices of a part to those of the whole, or back if the sign is -1."""
        by = dict.fromkeys(("starts", "ends", "document_starts", "document_ends"), self._token_starts)
        by["documents"] = self._document_starts
        names = {field.name for field in fields(spans)}.intersection(by)
        return replace(spans, **{name: getattr(spans, name) + sign * by[name][number] for name in names})
