"""Split a corpus by document into training and held-out text without a passage in common.

`count_training_words` counts the words of the documents to train on before the corpus is tokenised.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bert_rebuild.data.corpora.min_hash import passage_hashes
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader, WordCounts
from keras_bert_rebuild.data.corpora.token_store import checked_positions, span_indexes
from keras_bert_rebuild.data.random_numbers import keys, permuted
from keras_bert_rebuild.text.normalization import split_words

# Tokens hashed at a time, few enough to stay in the processor's cache.
_BLOCK = 1 << 17

# The factor of the first of two hashes that are joined.
_ODD = np.uint64(0x9E3779B97F4A7C15)


def repeated_passages(corpus, other):
    """The indices of the passages of a corpus that also occur in another corpus, with the same ids.

    Passages are compared by 64-bit hashes, so nothing of the other corpus is held in memory, however large it is. If two hashes
    collide, about once in 10¹⁸ pairs, a passage that is not repeated is included; a repeated passage is never missed.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes; memory grows with the number of its passages.
        other: the same.

    Returns:
        An int64 array, ascending.
    """
    return np.flatnonzero(_occur(_hashes(corpus), _hashes(other)))


def _repeated_in_context(corpus, other, repeated):
    """Of the repeated passages, those that the other corpus has next to the same passage, or also as a whole document."""
    begins = _begins(corpus)
    with_next = np.flatnonzero(~begins[1:-1])
    with_next = with_next[_occur(_hashes_with_next(corpus), _hashes_with_next(other))]
    alone = np.flatnonzero(begins[:-1] & begins[1:])
    return np.unique(np.concatenate([with_next, with_next + 1, np.intersect1d(alone, repeated)]))


def _occur(hashes, chunks):
    """Which hashes occur among others; both are iterables of uint64 arrays, and of the others one at a time is in memory."""
    distinct, indexes = np.unique(np.concatenate([np.zeros(0, "uint64"), *hashes]), return_inverse=True)
    occurs = np.zeros(len(distinct), bool)
    for chunk in chunks:
        at = np.searchsorted(distinct, chunk)
        inside = at < len(distinct)
        at, chunk = at[inside], chunk[inside]
        occurs[at[distinct[at] == chunk]] = True
    return occurs[indexes]


def _hashes(corpus, ahead=0):
    """Yield the hashes of the passages in order, a chunk at a time, each with the first `ahead` of the next one: uint64."""
    starts = np.asarray(corpus.passage_starts)
    first, last = 0, len(starts) - 1
    while first < last:
        stop = max(int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1, first + 1)
        end = min(stop + ahead, last)
        yield passage_hashes(corpus.ids_at(np.arange(starts[first], starts[end])), starts[first : end + 1] - starts[first])
        first = stop


def _hashes_with_next(corpus):
    """Yield the hashes of every two consecutive passages of a document, a chunk at a time: uint64."""
    begins, first = _begins(corpus), 0
    for hashes in _hashes(corpus, ahead=1):
        joined = hashes[:-1] * _ODD + hashes[1:]
        yield joined[~begins[first + 1 : first + 1 + len(joined)]]
        first += len(joined)


def _begins(corpus):
    """Whether a document begins with a passage, and True after the last one: bool `(passages + 1,)`."""
    starts = np.asarray(corpus.passage_starts)
    begins = np.zeros(len(starts), bool)
    begins[np.searchsorted(starts, np.asarray(corpus.document_starts))] = True
    return begins


class SomeDocuments:
    """Some documents of a corpus as a separate corpus; the token ids are not copied.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes.
        documents: the indices of the documents, ascending, at least one.
        without: the indices of passages to leave out. The text before and after each becomes two documents, so that no passage
            follows one that it did not follow before.

    Attributes:
        document_starts, passage_starts, num_tokens, vocabulary, cased: see `TokenCorpus`.
        texts: the index, from 0, of the text that each document is part of, ascending, int64 `(documents,)`.
        repeated: the fraction of the passages that training has in another context, see `unseen`.
    """

    repeated = 0.0

    def __init__(self, corpus, documents, without=()):
        passages = np.asarray(corpus.passage_starts)
        starts = np.searchsorted(passages, np.asarray(corpus.document_starts))
        documents = np.asarray(documents)
        counts = starts[documents + 1] - starts[documents]
        texts = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(texts)) + (starts[documents] - _sums(counts)[:-1])[texts]  # of the passages
        if len(without):
            remaining = ~np.isin(numbers, without)
            texts, numbers = texts[remaining], numbers[remaining]
        begins = np.flatnonzero((np.diff(texts, prepend=-1) > 0) | (np.diff(numbers, prepend=-1) > 1))
        self._corpus = corpus
        self._origins = passages[numbers[begins]]
        self.passage_starts = _sums(passages[numbers + 1] - passages[numbers])
        self.document_starts = self.passage_starts[np.append(begins, len(numbers))]
        self.texts = texts[begins]
        self.num_tokens = int(self.document_starts[-1])
        self.vocabulary = corpus.vocabulary
        self.cased = corpus.cased

    def ids_at(self, positions):
        """Token ids at positions in these documents, int32, in the shape of `positions`."""
        positions = checked_positions(positions, self.num_tokens)
        documents = span_indexes(self.document_starts, positions)
        return self._corpus.ids_at(positions + (self._origins - self.document_starts[:-1])[documents])


def split_documents(corpus, share, seed=0):
    """Split a corpus at random, by document.

    Every corpus of a `MixedCorpus` is split; what is held out of one is not in the training part of another either.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes.
        share: fraction of the documents to hold out, in (0, 1); at least three documents, so that they form pairs.
        seed: an integer.

    Returns:
        Two corpora: the documents to train on, and the held-out documents without what is also in training, see `unseen`.

    Raises:
        ValueError: the corpus is too small, or everything that is held out is in training too.
    """
    if not 0 < share < 1:
        raise ValueError(f"the fraction of documents to hold out must be in (0, 1); got {share}.")
    if isinstance(corpus, MixedCorpus):
        train, held_out = zip(*(_divided(part, share, seed) for part in corpus.parts), strict=True)
        mixed = corpus.with_parts(train)
        return mixed, corpus.with_parts([unseen(part, mixed) for part in held_out])
    train, held_out = _divided(corpus, share, seed)
    return train, unseen(held_out, train)


def held_out_documents(count, share, seed=0):
    """The indices of the documents that `split_documents` holds out, ascending.

    Args:
        count: number of documents in the corpus.
        share, seed: see `split_documents`.

    Raises:
        ValueError: the corpus is too small.
    """
    held_out = max(round(share * count), 3)
    if count - held_out < 3:
        raise ValueError(
            f"holding out {share} of {count} documents leaves fewer than 3 to train on: separate documents by blank lines, or hold "
            "out none."
        )
    return np.sort(permuted(keys(seed, 0, 0), count, np.arange(held_out)))


def _divided(corpus, share, seed):
    """The training and the held-out documents."""
    count = len(corpus.document_starts) - 1
    held_out = held_out_documents(count, share, seed)
    train = np.setdiff1d(np.arange(count), held_out, assume_unique=True)
    return SomeDocuments(corpus, train), SomeDocuments(corpus, held_out)


def unseen(held_out, train):
    """The held-out corpus without what is also in training.

    Passages that are also in training are left out. If these are more than half of all, as in a small language, what is left would
    be too little to judge pairs on: then only passages are left out that training has next to the same passage, or that are whole
    documents. The others are new in their context, but not as passages.

    Args:
        held_out: the corpus to test on: a `TokenCorpus`, or any object with its attributes.
        train: the corpus to train on.

    Returns:
        A `SomeDocuments`; its `repeated` is the fraction of passages that training has in another context.

    Raises:
        ValueError: fewer than two documents have passages left, so that they cannot form pairs.
    """
    count, passages = len(held_out.document_starts) - 1, len(held_out.passage_starts) - 1
    removed = repeated = repeated_passages(held_out, train)
    if 2 * len(repeated) > passages:
        removed = _repeated_in_context(held_out, train, repeated)
    left = SomeDocuments(held_out, np.arange(count), removed)
    texts = len(np.unique(left.texts))
    if texts < 2:
        raise ValueError(
            f"expected at least 2 held-out documents with passages that are not in training; {texts} of {count} "
            f"{'has' if texts == 1 else 'have'} any: hold out more documents, or none."
        )
    left.repeated = (len(repeated) - len(removed)) / (passages - len(removed))
    return left


def _sums(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype("int64")


# Progress is reported after each block.
BLOCK_BYTES = 1_000_000


def count_training_words(
    corpus: Any,
    words: WordCounts,
    share: float,
    seed: int = 0,
    document_per_file: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Count the words of all documents except those that `split_documents` will hold out.

    Documents are held out by their index in the token store, where documents without words are missing. A vocabulary made from
    these words has seen nothing of the held-out text, which needs no file of its own. The corpus is read twice: the first pass
    counts the documents.

    Args:
        corpus: a file or folder: see `CorpusReader`.
        words: the counter to add to.
        share: the fraction of the documents to hold out; 0 for none.
        seed: the seed of the split, an integer.
        document_per_file: each file is one document, regardless of blank lines.
        progress: called as `progress(file_bytes, text_bytes)`, with the bytes of both passes.

    Returns:
        The number of documents, held-out ones included.

    Raises:
        ValueError: the corpus is not usable, or too small to hold out part of it.
    """
    advance = progress or (lambda file_bytes, text_bytes: None)
    count, held_out = 0, set()
    if share:
        numbers = (number for number, _ in _documents(corpus, document_per_file, words.cased, advance))
        held_out = set(held_out_documents(max(numbers, default=0), share, seed).tolist())
    for count, passages in _documents(corpus, document_per_file, words.cased, advance):
        if count - 1 not in held_out:
            for passage in passages:
                words.add(passage)
    return count


def _documents(corpus, document_per_file, cased, advance):
    """Yield the index, from 1, and the passages of every document with a word; a document in several blocks comes in parts."""
    reader = CorpusReader(corpus, document_per_file, BLOCK_BYTES)
    count = done = 0
    begun = False  # whether the current document has had a word
    for block in reader.blocks():
        for i, document in enumerate(block.documents):
            has_words = any(split_words(passage, cased) for passage in document)
            follows = block.continues and i == 0 and begun
            if has_words:
                count += not follows
                yield count, document
            begun = has_words or follows
        advance(block.file_bytes - done, block.text_bytes)
        done = block.file_bytes
