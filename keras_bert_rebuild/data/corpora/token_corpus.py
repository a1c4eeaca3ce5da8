"""A corpus of token ids in memory, and the unigram baseline on it."""

import hashlib
from dataclasses import dataclass

import numpy as np

# Tokens hashed at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """Tokenised documents in flat arrays.

    Training examples need only `ids_at`, `passage_starts`, `document_starts`, `num_tokens` and `vocabulary`, so any object with
    these is a corpus.
    """

    ids: np.ndarray
    """The ids of all passages, concatenated, int32 `(tokens,)`."""

    passage_starts: np.ndarray
    """Where passages start and, last, the number of tokens, int64 `(passages + 1,)`, ascending."""

    document_starts: np.ndarray
    """The same for documents, `(documents + 1,)`; every document starts where a passage starts."""

    vocabulary: list
    """The tokens in the order of their ids."""

    cased: bool = False
    """Whether the ids preserve capitals and accents."""

    @property
    def num_tokens(self):
        """The number of tokens in all documents."""
        return len(self.ids)

    def ids_at(self, positions):
        """The ids at positions in the corpus, int32, in the shape of `positions`."""
        return np.take(self.ids, positions)


def encode_documents(documents, encode, vocabulary, cased=False):
    """Tokenise documents. Passages without tokens are left out, and documents without passages.

    Args:
        documents: an iterable of lists of passages.
        encode: a function from a passage to a list of ids.
        vocabulary: the tokens in the order of their ids.
        cased: whether `encode` preserves capitals and accents.

    Returns:
        A `TokenCorpus`.
    """
    ids, passages, ends = [], [], [0]
    for document in documents:
        encoded = [np.asarray(ids_of, "int32") for ids_of in map(encode, document) if len(ids_of)]
        ids += encoded
        passages += [len(ids_of) for ids_of in encoded]
        if encoded:
            ends.append(len(passages))
    starts = np.concatenate([[0], np.cumsum(passages, dtype="int64")]).astype("int64")
    flat = np.concatenate(ids) if ids else np.zeros(0, "int32")
    return TokenCorpus(flat, starts, starts[np.array(ends)], list(vocabulary), cased)


def corpus_digest(corpus):
    """The SHA-256 that identifies a corpus, in hexadecimal.

    Args:
        corpus: a `TokenCorpus`, or any object with its attributes. If it has `sha256`, like a `TokenStore`, that is returned;
            otherwise the digest covers all ids, the starts of passages and documents, and the vocabulary.
    """
    if hasattr(corpus, "sha256"):
        return corpus.sha256
    digest = hashlib.sha256()
    for array in (corpus.passage_starts, corpus.document_starts):
        digest.update(np.ascontiguousarray(array, "<i8"))
    for start in range(0, corpus.num_tokens, _BLOCK):
        ids = corpus.ids_at(np.arange(start, min(start + _BLOCK, corpus.num_tokens)))
        digest.update(np.ascontiguousarray(ids, "<i4"))
    digest.update("\n".join(corpus.vocabulary).encode())
    return digest.hexdigest()


def unigram_log_probabilities(ids, vocab_size):
    """The log probability of every token of the vocabulary from its count, with one added to each (Laplace), `(vocab_size,)`."""
    counts = np.bincount(ids, minlength=vocab_size) + 1.0
    return np.log(counts / counts.sum())
