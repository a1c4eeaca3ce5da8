"""Documents: reading them, and holding some out."""

import hashlib
import math
import sys

from keras_bert_rebuild.data.read_corpus import CorpusReader


def read_documents(path):
    """Read a text file or every text file of a folder.

    A line is a passage, a blank line or the end of a file ends a document: the format of Google's pretraining data.

    Args:
        path: a file in UTF-8, or a folder, whose text files are read in the order of their names: see `corpus_files`.

    Returns:
        A list of documents, each a list of passages without white space around them.

    Raises:
        ValueError: nothing is there, a file is damaged or not text, or no passage is in it.
    """
    reader = CorpusReader(path, block_bytes=math.inf, line_bytes=sys.maxsize, strict=True)
    return [document for block in reader.blocks() for document in block.documents]


def hold_out(documents, every=20, seed=0):
    """Split documents into those to train on and those to test on.

    Which side a document falls on depends on its text and the seed; at least one is held out. Passages of test documents that occur
    in training too are removed, since one passage in eight of a real corpus is repeated somewhere.

    Args:
        documents: lists of passages.
        every: about one document in so many is held out.
        seed: another seed holds out others.

    Returns:
        `(training documents, test documents)`, both in the given order.

    Raises:
        ValueError: fewer than two documents, or nothing to test on that is not in training too.
    """
    if len(documents) < 2:
        raise ValueError(
            f"a corpus must have at least 2 documents to hold one out, a blank line between one and the next; got {len(documents)}."
        )
    numbers = [_number(document, seed) for document in documents]
    held = {i for i, number in enumerate(numbers) if number % every == 0} or {numbers.index(min(numbers))}
    train = [document for i, document in enumerate(documents) if i not in held] or documents[:-1]
    seen = {passage for document in train for passage in document}
    test = [[passage for passage in documents[i] if passage not in seen] for i in sorted(held)]
    test = [document for document in test if document]
    if not test:
        raise ValueError("a corpus must have passages that occur in one document only, to test on; every one held out is repeated.")
    return train, test


def _number(document, seed):
    """A number that looks random and is the same on every machine."""
    digest = hashlib.sha256("\n".join([str(seed), document[0], str(len(document))]).encode()).digest()
    return int.from_bytes(digest[:8], "big")
