"""The examples of a corpus whose documents are read in groups, so that memory does not grow with the corpus.

A corpus of at most `GROUP` documents is one group. A larger one is divided into groups of about that size: each has runs of `RUN`
consecutive documents from all over the corpus, as a hand of cards has some from all over the pack. A pass reads the groups one
after the other, in an order that differs between passes, and the examples of a group in a random order. So an example is still a
function of its position, whose group is found by the numbers of examples of the groups before it.
"""

import functools
from dataclasses import dataclass, fields, replace

import numpy as np

from keras_bert_rebuild.data.random_numbers import keys, permuted

GROUP = 1 << 17
RUN = 1 << 9

# Groups in memory: those of the threads that prepare batches, at a boundary two.
_HELD = 3

# Position of the key from which a group draws its seed.
_SEED = 3


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents of a corpus, as arrays `(documents,)`."""

    starts: np.ndarray
    """Position of the first token in the corpus."""

    sizes: np.ndarray
    """Number of tokens, at least 1."""

    texts: np.ndarray
    """The index, from 0, of the text that each document is part of: that of the document, unless the corpus has `texts`."""


def documents_of(corpus, group=0, groups=1):
    """The `Documents` of a group.

    Args:
        corpus: a `TokenCorpus` or any object with its attributes.
        group: the number of the group.
        groups: number of groups of the corpus.

    Raises:
        ValueError: the corpus has no documents, or a document has no tokens.
    """
    count = len(corpus.document_starts) - 1
    if groups == 1:
        numbers, offsets = np.arange(count), np.asarray(corpus.document_starts)
        starts, sizes = offsets[:-1], np.diff(offsets)
    else:
        runs = np.arange(group, -(-count // RUN), groups)
        numbers = (runs[:, None] * RUN + np.arange(RUN)).ravel()
        numbers = numbers[numbers < count]
        starts = corpus.document_starts[numbers]
        sizes = corpus.document_starts[numbers + 1] - starts
    if not count or sizes.min() < 1:
        at = f"document {int(numbers[sizes.argmin()])} has none" if count else "it has no documents"
        raise ValueError(f"a corpus must have documents of at least one token each; {at}.")
    texts = getattr(corpus, "texts", None)
    if texts is not None:
        texts = np.unique(np.asarray(texts)[numbers], return_inverse=True)[1]
    return Documents(starts, sizes, np.arange(len(starts)) if texts is None else texts)


def count_groups(corpus):
    """The number of groups that a corpus is read in."""
    return max(-(-(len(corpus.document_starts) - 1) // GROUP), 1)


def examples_of_documents(corpus, make, seed):
    """The examples of a corpus, in one group or several.

    Args:
        corpus: a `TokenCorpus` or any object with its attributes.
        make: a function from `Documents` and a seed to their `Examples` or `PackedRows`.
        seed: an integer.
    """
    return make(documents_of(corpus), seed) if count_groups(corpus) == 1 else GroupedExamples(corpus, make, seed)


class GroupedExamples:
    """Examples of a corpus of several groups, with the interface of those of one group.

    Args:
        corpus, make, seed: see `examples_of_documents`.
    """

    def __init__(self, corpus, make, seed):
        self._groups, self._seed = count_groups(corpus), seed

        @functools.lru_cache(_HELD)
        def examples(group):
            return make(documents_of(corpus, group, self._groups), int(keys(seed, group, _SEED)))

        self._examples = examples
        self._counts = np.zeros(self._groups, "int64")  # the examples of a group, 0 until they have been counted

    def __len__(self):
        """Number of examples of a pass. All groups are read to count them, which `at` does only when a pass has been read."""
        return self._counted_beyond(None)

    @property
    def length(self):
        """Maximum number of tokens of a span."""
        return self._examples(0).length

    def at(self, positions):
        """The spans or pieces at positions in the sequence of passes: see `Examples.at` and `PackedRows.at`."""
        positions = np.asarray(positions, "int64")
        passes, indexes = np.divmod(positions, self._counted_beyond(positions.max(initial=0)))
        groups = np.empty_like(indexes)
        for number in np.unique(passes):
            here = np.flatnonzero(passes == number)
            order = self._order(number)
            ends = np.cumsum(self._counts[order])  # those not counted are after all others in the first pass
            slots = np.searchsorted(ends, indexes[here], side="right")
            groups[here] = order[slots]
            indexes[here] -= ends[slots] - self._counts[groups[here]]
        positions = passes * self._counts[groups] + indexes
        return joined_rows(groups, lambda group, rows: self._whole(self._examples(group).at(positions[rows]), group))

    def from_other_documents(self, spans, draws):
        """For every span, one of another document of its group: see `Examples.from_other_documents`."""

        def in_group(group, rows):
            some = rows_of(spans, rows)
            run, index = np.divmod(some.documents, RUN)
            own = replace(some, documents=run // self._groups * RUN + index)
            return self._whole(self._examples(group).from_other_documents(own, draws[rows]), group)

        return joined_rows(spans.documents // RUN % self._groups, in_group)

    def _whole(self, examples, group):
        """Change the indices of documents in a group to those in the corpus."""
        if not hasattr(examples, "documents"):
            return examples
        run, index = np.divmod(examples.documents, RUN)
        return replace(examples, documents=(run * self._groups + group) * RUN + index)

    def _order(self, number):
        return permuted(keys(self._seed, number, 0), self._groups, np.arange(self._groups))

    def _counted_beyond(self, position):
        """Count the examples of groups, in the order of the first pass, to a position; None for all.

        Returns:
            The number of examples counted so far. It is larger than the position, or that of a whole pass.
        """
        if (position is None or position >= self._counts.sum()) and not self._counts.all():
            for group in self._order(0):
                if not self._counts[group]:
                    self._counts[group] = len(self._examples(int(group)))
                    if position is not None and position < self._counts.sum():
                        break
        return int(self._counts.sum())


def rows_of(arrays, rows):
    """Some rows of a dataclass of arrays."""
    return type(arrays)(*(getattr(arrays, field.name)[rows] for field in fields(arrays)))


def joined_rows(parts, make):
    """Join what is made for the rows of every part, a dataclass of arrays; rows of pieces are padded to the same number of pieces.

    Args:
        parts: the number of the part of every row, `(rows,)`.
        make: a function of the number of a part and the indices of its rows.
    """
    made = []
    for number in np.unique(parts):
        rows = np.flatnonzero(parts == number)
        made.append((rows, make(int(number), rows)))
    first = made[0][1]
    return type(first)(*(_joined([(rows, getattr(of_part, field.name)) for rows, of_part in made]) for field in fields(first)))


def _joined(parts):
    columns = max((array.shape[1] for _, array in parts if array.ndim > 1), default=0)
    shape = (sum(len(rows) for rows, _ in parts), *([columns] if columns else []))
    result = np.zeros(shape, parts[0][1].dtype)
    for rows, array in parts:
        if columns:
            result[rows, : array.shape[1]] = array
        else:
            result[rows] = array
    return result
