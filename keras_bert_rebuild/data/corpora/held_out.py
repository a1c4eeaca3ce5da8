"""Split a corpus by document into training and held-out text without a passage in common.

`count_training_words` counts the words of the documents to train on before the corpus is tokenised.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bert_rebuild.data.corpora.min_hash import passage_hashes
from keras_bert_rebuild.data.corpora.mixed import MixedCorpus, SomeDocuments
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader, WordCounts
from keras_bert_rebuild.data.random_numbers import keys, permuted
from keras_bert_rebuild.text.normalization import split_words

# Maximum number of documents that are held out: they are in memory while they are compared with the training text.
MOST_HELD_OUT = 1 << 16

# Tokens hashed at a time, few enough to stay in the processor's cache.
_BLOCK = 1 << 17

_BEGIN_BITS = 22

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
    begins = _begins(corpus, np.asarray(corpus.passage_starts))
    with_next = np.flatnonzero(~begins[1:-1])
    with_next = with_next[_occur(_hashes_with_next(corpus), _hashes_with_next(other))]
    alone = np.flatnonzero(begins[:-1] & begins[1:])
    return np.unique(np.concatenate([with_next, with_next + 1, np.intersect1d(alone, repeated)]))


def _occur(hashes, chunks):
    """Which hashes occur among others; both are iterables of uint64 arrays, and of the others one at a time is in memory."""
    distinct, indexes = np.unique(np.concatenate([np.zeros(0, "uint64"), *hashes]), return_inverse=True)
    occurs = np.zeros(len(distinct), bool)
    begins = np.zeros(1 << _BEGIN_BITS, bool)  # whether a hash begins with these bits: most chunks need no further search
    begins[distinct >> np.uint64(64 - _BEGIN_BITS)] = True
    for chunk in chunks:
        chunk = chunk[begins[chunk >> np.uint64(64 - _BEGIN_BITS)]]
        at = np.searchsorted(distinct, chunk)
        inside = at < len(distinct)
        at, chunk = at[inside], chunk[inside]
        occurs[at[distinct[at] == chunk]] = True
    return occurs[indexes]


def _hashes(corpus, ahead=0):
    """Yield the hashes of the passages in order, a chunk at a time, each with the first `ahead` of the next one: uint64."""
    for starts in _chunks(corpus, ahead):
        yield passage_hashes(corpus.ids_at(np.arange(starts[0], starts[-1])), starts - starts[0])


def _hashes_with_next(corpus):
    """Yield the hashes of every two consecutive passages of a document, a chunk at a time: uint64."""
    for starts, hashes in zip(_chunks(corpus, 1), _hashes(corpus, 1), strict=True):
        yield (hashes[:-1] * _ODD + hashes[1:])[~_begins(corpus, starts)[1:-1]]


def _chunks(corpus, ahead):
    """Yield the offsets of consecutive passages, and last the end of these: int64 `(passages + 1,)`."""
    offsets = corpus.passage_starts
    first, last = 0, len(offsets) - 1
    while first < last:
        stop = max(int(np.searchsorted(offsets, offsets[first] + _BLOCK, side="right")) - 1, first + 1)
        yield offsets[first : min(stop + ahead, last) + 1]
        first = stop


def _begins(corpus, offsets):
    """Whether a document, or what follows the last one, begins at these ascending offsets, bool `(offsets,)`."""
    first, last = np.searchsorted(corpus.document_starts, offsets[[0, -1]])
    return np.isin(offsets, corpus.document_starts[first : last + 1])


def split_documents(corpus, share, seed=0):
    """Split a corpus at random, by document.

    Every corpus of a `MixedCorpus` is split; what is held out of one is not in the training part of another either.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes.
        share: fraction of the documents to hold out, in (0, 1); at least three documents, so that they form pairs, and at most
            65,536 of a corpus.
        seed: an integer.

    Returns:
        Two corpora: the documents to train on, and the held-out documents without what is also in training, see `unseen`.

    Raises:
        ValueError: the corpus is too small, or everything that is held out is in training too.
    """
    train, held_out = draw_held_out(corpus, share, seed)
    return train, unseen(held_out, train)


def draw_held_out(corpus, share, seed=0):
    """The documents to train on and the held-out ones, two corpora; the text is not read, and passages may be in both.

    Args:
        corpus, share, seed: see `split_documents`.

    Raises:
        ValueError: the corpus is too small.
    """
    if not 0 < share < 1:
        raise ValueError(f"the fraction of documents to hold out must be in (0, 1); got {share}.")
    if isinstance(corpus, MixedCorpus):
        return map(corpus.with_parts, zip(*(draw_held_out(part, share, seed) for part in corpus.parts), strict=True))
    count = len(corpus.document_starts) - 1
    held_out = held_out_documents(count, share, seed)
    between = np.stack([np.append(0, held_out + 1), np.append(held_out, count)], axis=1)
    return SomeDocuments(corpus, between[between[:, 0] < between[:, 1]]), SomeDocuments(corpus, held_out)


def held_out_documents(count, share, seed=0):
    """The indices of the documents that `split_documents` holds out, ascending.

    Args:
        count: number of documents in the corpus.
        share, seed: see `split_documents`.

    Raises:
        ValueError: the corpus is too small.
    """
    held_out = min(max(round(share * count), 3), MOST_HELD_OUT)
    if count - held_out < 3:
        raise ValueError(
            f"holding out {share} of {count} documents leaves fewer than 3 to train on: separate documents by blank lines, or hold "
            "out none."
        )
    return np.sort(permuted(keys(seed, 0, 0), count, np.arange(held_out)))


def unseen(held_out, train):
    """The held-out corpus without what is also in training.

    Passages that are also in training are left out. If these are more than half of all, as in a small language, what is left would
    be too little to judge pairs on: then only passages are left out that training has next to the same passage, or that are whole
    documents. The others are new in their context, but not as passages.

    Args:
        held_out: the corpus to test on: a `TokenCorpus`, or any object with its attributes.
        train: the corpus to train on, which is read once.

    Returns:
        A `SomeDocuments`, whose `repeated` is the fraction of passages that training has in another context; for a `MixedCorpus`
        one of those.

    Raises:
        ValueError: fewer than two documents have passages left, so that they cannot form pairs.
    """
    if isinstance(held_out, MixedCorpus):
        return held_out.with_parts([unseen(part, train) for part in held_out.parts])
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
