"""A corpus of token ids in three flat arrays."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TokenCorpus:
    """Tokenised documents."""

    ids: np.ndarray
    """The ids of all passages, one behind the other, `(tokens,)`."""

    passages: np.ndarray
    """Where passages start and, last, where the ids end, `(passages + 1,)`."""

    documents: np.ndarray
    """Index of the document of every passage, `(passages,)`."""

    def passage(self, index):
        """The ids of a passage."""
        return self.ids[self.passages[index] : self.passages[index + 1]]

    def __len__(self):
        return len(self.documents)


def encode_documents(documents, encode):
    """Tokenise documents.

    Args:
        documents: an iterable of lists of passages.
        encode: from a passage to a list of ids.
    """
    ids, lengths, owners = [], [], []
    for owner, document in enumerate(documents):
        for passage in document:
            encoded = encode(passage)
            if encoded:
                ids.append(np.asarray(encoded, "int32"))
                lengths.append(len(encoded))
                owners.append(owner)
    flat = np.concatenate(ids) if ids else np.zeros(0, "int32")
    return TokenCorpus(flat, np.concatenate([[0], np.cumsum(lengths, dtype="int64")]).astype("int64"), np.array(owners, "int64"))
