"""Retrievers without a model, whose vectors are whole numbers that depend on the text alone, and a small corpus.

Products and sums of such vectors are exact in float32, so that texts of equal vectors have equal scores in any order of summation.

`python small_search.py FOLDER STEP` changes an index as `change` does and kills itself at that step, see `stopping`; without STEP
it says when it writes.
"""

import os
import signal
import sys
import zlib

import numpy as np

from keras_bert_rebuild.data.retrieval import Document
from keras_bert_rebuild.search import writing
from keras_bert_rebuild.search.dense_vectors import DenseVectors
from keras_bert_rebuild.search.index import Index
from keras_bert_rebuild.search.table import Table

WIDTH = 24


def random_of(text):
    """A generator that depends on a text."""
    return np.random.default_rng(zlib.crc32(text.encode()))


class WholeNumbers:
    """Dense vectors of whole numbers; it notes the texts that it was given."""

    vectors = "dense"

    def __init__(self, width=WIDTH, name="whole"):
        self.width, self.name, self.seen = width, name, []

    def vector(self, text):
        return random_of(text).integers(-3, 4, self.width).astype("float32")

    def queries(self, texts):
        for text in texts:
            yield self.vector(text)

    def documents(self, texts):
        for text in texts:
            self.seen.append(text)
            yield self.vector(text)

    def description(self):
        return {"name": self.name, "lengths": (8, 16)}


class Words(WholeNumbers):
    """Sparse vectors: how often a word, whose id is its hash, is in the text."""

    vectors = "sparse"

    def vector(self, text):
        ids, counts = np.unique([zlib.crc32(word.encode()) % self.width for word in text.split()], return_counts=True)
        return ids.astype("int32"), counts.astype("float32")


class WordVectors(WholeNumbers):
    """A vector a word."""

    vectors = "tokens"

    def vector(self, text):
        found = [random_of(word).integers(-3, 4, self.width).astype("float32") for word in text.split()]
        return np.stack(found) if found else np.zeros((0, self.width), "float32")


def words(rng, most=6):
    """A text of up to some words out of forty."""
    return " ".join(f"w{i}" for i in rng.integers(0, 40, rng.integers(1, most + 1)))


def small_corpus(count, seed=0):
    """Documents, some of which have equal texts, in an order that is not that of their ids."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(count)
    return [Document(f"d{name}", "title" if name % 3 == 0 else "", words(rng, 3)) for name in names]


def brute_force(retriever, corpus, query, top_k):
    """The best documents by a loop over all of them: `[(id, score)]`, where of equal scores the last id is first."""
    vector = next(iter(retriever.queries([query])))
    scored = []
    for document, found in zip(corpus, retriever.documents(d.full_text for d in corpus), strict=True):
        score = product(retriever.vectors, vector, found)
        if score is not None:
            scored.append((float(score), document.id))
    return [(name, score) for score, name in sorted(scored, reverse=True)[:top_k]]


def product(kind, query, document):
    """The score of a document for a query, written plainly; None if it is not found."""
    if kind == "dense":
        return sum(a * b for a, b in zip(query, document, strict=True))
    if kind == "sparse":
        weights = dict(zip(document[0].tolist(), document[1].tolist(), strict=True))
        shared = [(weights[i], w) for i, w in zip(query[0].tolist(), query[1].tolist(), strict=True) if i in weights]
        return sum(a * b for a, b in shared) if shared else None
    return sum(max(float(a @ b) for b in document) for a in query) if len(document) else None


# An index that is changed while something happens to it: ten documents, of which five are replaced, and ten are added.
OLD = small_corpus(10)
NEW = [document._replace(text=f"w{i} w1 new", metadata={"year": i}) for i, document in enumerate(OLD[:5])]
NEW += [Document(f"e{i}", "", f"w{i} w1", {"year": i}) for i in range(10)]
# The calls that write.
STEPS = [(Table, name) for name in ("create", "add", "replace", "add_columns", "index_words", "tidy")] + [(writing, "drop")]


class Stopped(WholeNumbers):
    """Calls a function before every text."""

    def __init__(self, stop):
        super().__init__()
        self.stop = stop

    def vector(self, text):
        self.stop()
        return super().vector(text)


def stopping(patch, stop):
    """Call `stop` before and after every step of writing; `patch` is `setattr`."""

    def stopped(step):
        def run(*arguments):
            stop()
            result = step(*arguments)
            stop()
            return result

        return run

    for owner, name in STEPS:
        patch(owner, name, stopped(getattr(owner, name)))


def change(folder, model):
    """Replace and add the documents of `NEW`, four at a time."""
    DenseVectors.BLOCK, before = 4, DenseVectors.BLOCK
    try:
        return Index.open(folder, model).update(NEW)
    finally:
        DenseVectors.BLOCK = before


def main(folder, step=None):
    left = [int(step or 0)]

    def die():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(*arguments):
        print("writing", flush=True)
        return replace(*arguments)

    replace = Table.replace
    if step is None:
        Table.replace = tell
    else:
        stopping(setattr, die)
    change(folder, Stopped(die))


if __name__ == "__main__":
    main(*sys.argv[1:])
