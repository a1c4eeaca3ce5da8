"""Reading documents, and holding some of them out."""

import hashlib
import math
import sys

from keras_bert_rebuild.data.read_corpus import CorpusReader


def read_documents(path):
    """Read a text file or every text file of a folder.

    A line is a passage, a blank line or the end of a file ends a document: the format of Google's pretraining data.

    Args:
        path: a file in UTF-8, or a folder, whose text files are read sorted by name: see `corpus_files`.

    Returns:
        A list of documents, each a list of passages without white space around them.

    Raises:
        ValueError: the path does not exist, a file is damaged or not text, or there is no passage.
    """
    reader = CorpusReader(path, block_bytes=math.inf, line_bytes=sys.maxsize, strict=True)
    return [document for block in reader.blocks() for document in block.documents]


def hold_out(documents, every=20, seed=0):
    """Split documents into those to train on and those to test on.

    The text of a document and the seed decide which side it is on. Each side has at least two, since a pair needs two documents.
    One passage in eight of a real corpus is repeated somewhere: once the documents are ids, `held_out.unseen` removes those that
    are also in training from the test documents.

    Args:
        documents: lists of passages.
        every: about one document in `every` is held out.
        seed: a different seed holds out different documents.

    Returns:
        `(training documents, test documents)`, both in the given order.

    Raises:
        ValueError: there are fewer than four documents, or fewer than two to test on with a passage that is not also in training.
    """
    if len(documents) < 4:
        raise ValueError(f"a corpus must have at least 4 documents, separated by blank lines, to hold out 2; got {len(documents)}.")
    numbers = [_number(document, seed) for document in documents]
    held = {i for i, number in enumerate(numbers) if number % every == 0}
    if not 2 <= len(held) <= len(documents) - 2:
        held = set(sorted(range(len(documents)), key=numbers.__getitem__)[:2])
    train = [document for i, document in enumerate(documents) if i not in held]
    test = [documents[i] for i in sorted(held)]
    seen = {passage for document in train for passage in document}
    if sum(not seen.issuperset(document) for document in test) < 2:
        raise ValueError("a corpus must have passages that occur in only one document, to test on; those held out are repeated.")
    return train, test


def _number(document, seed):
    """A number that looks random and is the same on every machine."""
    digest = hashlib.sha256("\n".join([str(seed), document[0], str(len(document))]).encode()).digest()
    return int.from_bytes(digest[:8], "big")
