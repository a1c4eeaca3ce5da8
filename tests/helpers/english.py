"""A corpus of real English available on every machine: the standard library's docstrings, as paragraphs or sentences."""

import functools
import re
from collections import Counter

from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files, encode_documents

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@functools.cache
def paragraphs():
    """Documents of at least a hundred words, lists of paragraphs."""
    return [document for document in map(docstring_document, docstring_files(())) if len(" ".join(document).split()) > 100]


def sentences():
    """The same documents, lists of sentences."""
    return [[line for passage in document for line in re.split(r"(?<=[.!?])\s+", passage)] for document in paragraphs()]


def corpus(some):
    """Documents as a corpus whose tokens are words and marks."""
    split = [[re.findall(r"\w+|[^\w\s]", passage.lower()) for passage in document] for document in some]
    counts = Counter(word for document in split for passage in document for word in passage)
    ids = {word: i for i, word in enumerate([*SPECIAL, *counts])}
    return encode_documents(split, lambda passage: [ids[word] for word in passage], list(ids))
