"""A corpus whose tokens are all different, so that an id identifies its position; and a text."""

import numpy as np

from keras_bert_rebuild.data.corpora.documents import TokenCorpus

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
FIRST = len(SPECIAL)


def small_corpus(documents=20, passages=10, longest=14, pieces=0.0, seed=0):
    """Documents of passages of 2 to `longest` tokens, the id of a token its position and 5; some are `##` pieces."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, longest + 1, documents * passages)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    count = int(starts[-1])
    continues = rng.random(count) < pieces
    vocabulary = [*SPECIAL, *(f"##{i}" if piece else f"w{i}" for i, piece in enumerate(continues))]
    return TokenCorpus(np.arange(FIRST, FIRST + count, dtype="int32"), starts, starts[::passages], vocabulary)


def document_of(corpus, ids):
    """The number of the document that tokens come from."""
    return np.searchsorted(corpus.document_starts, np.asarray(ids) - FIRST, side="right") - 1


def write_text(path, documents=20):
    """A text whose documents each have a word of their own, twice in every passage."""
    names = ["".join(chr(97 + int(digit)) for digit in f"{i:03d}") for i in range(documents)]
    said = [[f"the {name} sat on mat {j} and the {name} ran {i * j}" for j in range(6)] for i, name in enumerate(names)]
    path.write_text("\n\n".join("\n".join(passages) for passages in said) + "\n")
    return path
