"""The examples of several corpora as one endless sequence, sampled by the share of each corpus."""

from dataclasses import fields, replace

import numpy as np

from keras_bert_rebuild.data.corpora.mixed import WINDOW, window_quotas
from keras_bert_rebuild.data.random_numbers import keys, permuted


def examples_of(store, make, seed):
    """The examples of a corpus, or of the corpora of a `MixedCorpus`.

    Args:
        store: a corpus.
        make: a function from a corpus and a seed to its `Examples` or `PackedRows`.
        seed: an integer.
    """
    if not hasattr(store, "parts"):
        return make(store, seed)
    # Equally numbered examples of different corpora have different random numbers.
    return MixedExamples(store, [make(part, int(keys(seed, number, 1))) for number, part in enumerate(store.parts)], seed)


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
        windows, places = np.divmod(np.asarray(positions, "int64"), WINDOW)
        places = permuted(keys(self._seed, windows, 0), WINDOW, places)
        parts = np.searchsorted(self._ends, places, side="right")
        indexes = windows * self._quotas[parts] + places - (self._ends - self._quotas)[parts]
        return self._of_parts(parts, lambda number, rows: self._examples[number].at(indexes[rows]))

    def of_other_documents(self, spans, draws):
        """For every span, one of another document of the same corpus: see `Examples.of_other_documents`."""
        parts = np.searchsorted(self._document_starts, spans.documents, side="right") - 1

        def others(number, rows):
            some = type(spans)(*(getattr(spans, field.name)[rows] for field in fields(spans)))
            return self._examples[number].of_other_documents(self._moved(some, number, -1), draws[rows])

        return self._of_parts(parts, others)

    def _of_parts(self, parts, make):
        """Combine what is made for the rows of every part."""
        made = []
        for number in np.unique(parts):
            rows = np.flatnonzero(parts == number)
            made.append((rows, self._moved(make(number, rows), number, 1)))
        return type(made[0][1])(*(_joined([(rows, getattr(of, f.name)) for rows, of in made]) for f in fields(made[0][1])))

    def _moved(self, found, number, sign):
        """Shift positions and document indices of a part to those of the whole, or back if the sign is -1."""
        by = {"starts": self._token_starts, "ends": self._token_starts, "documents": self._document_starts}
        names = {field.name for field in fields(found)}.intersection(by)
        return replace(found, **{name: getattr(found, name) + sign * by[name][number] for name in names})


def _joined(parts):
    """Concatenate arrays by rows; rows of pieces are padded to the same number of pieces."""
    columns = max((array.shape[1] for _, array in parts if array.ndim > 1), default=0)
    shape = (sum(len(rows) for rows, _ in parts), *([columns] if columns else []))
    result = np.zeros(shape, parts[0][1].dtype)
    for rows, array in parts:
        if columns:
            result[rows, : array.shape[1]] = array
        else:
            result[rows] = array
    return result
