"""A corpus parted by document: what to train on, and what never to train on."""

import numpy as np

from keras_bert_rebuild.data.random_numbers import keys, permuted


class SomeDocuments:
    """Documents of a corpus as a corpus of their own; the token ids stay where they are.

    Args:
        corpus: a `TokenCorpus`, or anything that has its attributes.
        documents: the numbers of the documents, ascending, at least one.

    Attributes:
        document_starts, passage_starts, num_tokens, vocabulary, cased: as of a `TokenCorpus`.
    """

    def __init__(self, corpus, documents):
        starts = np.asarray(corpus.document_starts)
        passages = np.asarray(corpus.passage_starts)
        self._corpus = corpus
        self._origins = starts[documents]
        self.document_starts = _sums(starts[np.asarray(documents) + 1] - self._origins)
        first = np.searchsorted(passages, self._origins)
        counts = np.searchsorted(passages, starts[np.asarray(documents) + 1]) - first
        of_passage = np.repeat(np.arange(len(counts)), counts)
        chosen = first[of_passage] + np.arange(len(of_passage)) - _sums(counts)[of_passage]
        self.passage_starts = _sums(passages[chosen + 1] - passages[chosen])
        self.num_tokens = int(self.document_starts[-1])
        self.vocabulary = corpus.vocabulary
        self.cased = corpus.cased

    def ids_at(self, positions):
        """The ids at positions in these documents, int32, in the shape of `positions`."""
        positions = np.asarray(positions)
        if positions.size and (positions.min() < 0 or positions.max() >= self.num_tokens):
            raise IndexError(f"positions must be in [0, {self.num_tokens}); got {positions.min()} to {positions.max()}.")
        documents = np.searchsorted(self.document_starts, positions, side="right") - 1
        return self._corpus.ids_at(positions + (self._origins - self.document_starts[:-1])[documents])


def split_documents(corpus, share, seed=0):
    """Part a corpus by document, at random.

    Args:
        corpus: a `TokenCorpus`, or anything that has its attributes.
        share: part of the documents to hold out, in (0, 1); three documents at the least, so that there are pairs of them.
        seed: a whole number.

    Returns:
        The documents to train on and those held out, two corpora.

    Raises:
        ValueError: the corpus is too small to be parted so.
    """
    if not 0 < share < 1:
        raise ValueError(f"the share of the documents to hold out must be in (0, 1); got {share}.")
    count = len(corpus.document_starts) - 1
    held_out = max(round(share * count), 3)
    if count - held_out < 3:
        raise ValueError(f"to hold out {share} of {count} documents leaves fewer than 3 to train on.")
    chosen = np.sort(permuted(keys(seed, 0, 0), count, np.arange(held_out)))
    others = np.setdiff1d(np.arange(count), chosen, assume_unique=True)
    return SomeDocuments(corpus, others), SomeDocuments(corpus, chosen)


def _sums(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
