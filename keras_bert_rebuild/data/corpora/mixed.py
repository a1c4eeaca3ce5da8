"""Several corpora as one, each with a given share of the examples, and their examples as one endless sequence."""

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
from keras_bert_rebuild.data.corpora.offsets import JoinedOffsets
from keras_bert_rebuild.data.corpora.token_store import TokenStore, checked_positions, span_indexes
from keras_bert_rebuild.data.random_numbers import keys, permuted
from keras_bert_rebuild.files.limits import is_number

# In every window of this many examples each corpus has exactly its share, rounded to an integer.
WINDOW = 1024


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
