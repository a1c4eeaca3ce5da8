"""A corpus of token ids in memory."""

import hashlib
from dataclasses import dataclass

import numpy as np

# Tokens that are looked at together.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """Tokenised documents in flat arrays.

    What makes training examples asks for `ids_at`, `passage_starts`, `document_starts`, `num_tokens` and `vocabulary` alone, so
    anything that has them is a corpus.
    """

    ids: np.ndarray
    """The ids of all passages, one behind the other, int32 `(tokens,)`."""

    passage_starts: np.ndarray
    """Where passages start and, last, the number of tokens, int64 `(passages + 1,)`, ascending."""

    document_starts: np.ndarray
    """The same for documents, `(documents + 1,)`; every one of them is a start of a passage too."""

    vocabulary: list
    """The tokens in the order of their ids."""

    cased: bool = False
    """Whether the text kept its capitals and accents."""

    @property
    def num_tokens(self):
        """How many tokens the documents have together."""
        return len(self.ids)

    def ids_at(self, positions):
        """The ids at positions in the corpus, int32, in the shape of `positions`."""
        return np.take(self.ids, positions)


def encode_documents(documents, encode, vocabulary, cased=False):
    """Tokenise documents. Passages without tokens are left out, and documents without passages.

    Args:
        documents: an iterable of lists of passages.
        encode: from a passage to a list of ids.
        vocabulary: the tokens in the order of their ids.
        cased: whether `encode` keeps capitals and accents.

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
    """Which corpus it is: a SHA-256, in hexadecimal.

    Args:
        corpus: a `TokenCorpus`, or anything that has its attributes. Where it has `sha256`, as a `TokenStore` has, this is the
            answer; otherwise it is of all ids, of where passages and documents start, and of the vocabulary.
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
