"""A corpus in memory: documents from files or docstrings, held-out documents, token ids and the unigram baseline."""

import ast
import hashlib
import importlib.util
import inspect
import math
import re
import sys
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader


def read_documents(path):
    """Read a text file or every text file of a folder.

    Every line is a passage; a blank line or the end of a file ends a document, as in Google's pretraining data.

    Args:
        path: a file in UTF-8, or a folder, whose text files are read in the order of their names: see `corpus_files`.

    Returns:
        A list of documents, each a list of passages without white space around them.

    Raises:
        ValueError: the path does not exist, a file is damaged or not text, or there is no passage.
    """
    reader = CorpusReader(path, block_bytes=math.inf, line_bytes=sys.maxsize, strict=True)
    return [document for block in reader.blocks() for document in block.documents]


def hold_out(documents, every=20, seed=0):
    """Split documents into training and test documents.

    The side of a document depends only on its text and the seed. Each side has at least two documents, since pairs need two.
    About one passage in eight of a real corpus occurs more than once: when the documents are ids, `held_out.unseen` removes
    passages that are also in the training documents from the test documents.

    Args:
        documents: lists of passages.
        every: about one document in `every` is held out.
        seed: seed of the split.

    Returns:
        `(training documents, test documents)`, both in the given order.

    Raises:
        ValueError: there are fewer than four documents, or fewer than two test documents with a passage not in training.
    """
    if len(documents) < 4:
        raise ValueError(f"expected at least 4 documents, separated by blank lines, to hold out 2 of them; got {len(documents)}.")
    numbers = [_number(document, seed) for document in documents]
    held = {i for i, number in enumerate(numbers) if number % every == 0}
    if not 2 <= len(held) <= len(documents) - 2:
        held = set(sorted(range(len(documents)), key=numbers.__getitem__)[:2])
    train = [document for i, document in enumerate(documents) if i not in held]
    test = [documents[i] for i in sorted(held)]
    seen = {passage for document in train for passage in document}
    if sum(not seen.issuperset(document) for document in test) < 2:
        raise ValueError("expected 2 held-out documents with passages that are not in training; all their passages are repeated.")
    return train, test


def _number(document, seed):
    """A pseudorandom number, the same on every machine."""
    digest = hashlib.sha256("\n".join([str(seed), document[0], str(len(document))]).encode()).digest()
    return int.from_bytes(digest[:8], "big")


# Lines of docstrings that are neither documentation nor prose.
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__", "_vendor"}

# A passage is prose if it has at least this many words and at least this fraction of its characters are letters and spaces.
MIN_WORDS = 8
MIN_LETTERS = 0.85


def docstring_files(packages):
    """The Python files of the standard library and of installed packages, in a fixed order.

    Args:
        packages: names of packages; missing ones are skipped. None is imported.
    """
    folders = [Path(sysconfig.get_paths()["stdlib"])]
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            folders.append(Path(next(iter(spec.submodule_search_locations))))
    files = []
    for folder in folders:
        inside = (path.relative_to(folder) for path in folder.rglob("*.py"))
        files += [folder / path for path in sorted(inside) if SKIPPED_FOLDERS.isdisjoint(path.parts)]
    return files


def docstring_document(path):
    """The prose of all docstrings of a file: a list of passages, one per paragraph."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated escapes in the strings of other packages
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates, and files for other versions of Python
        return []
    passages = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            passages += prose(ast.get_docstring(node, clean=True) or "")
    return list(dict.fromkeys(passages))


def prose(docstring):
    """The paragraphs of a docstring that are sentences, one line each; code, tables and argument lists are left out.

    Example:

    >>> prose("Return the sum of two numbers, be they integers or floats.\\n\\n>>> add(1, 2)\\n3")
    ['Return the sum of two numbers, be they integers or floats.']
    """
    passages = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        line = " ".join(paragraph.split())
        letters = sum(char.isalpha() or char == " " for char in line)
        if len(line.split()) >= MIN_WORDS and letters >= MIN_LETTERS * len(line) and ">>>" not in line and "```" not in line:
            passages.append(line)
    return passages


# Tokens hashed at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """Tokenised documents in flat arrays.

    Training examples only need `ids_at`, `passage_starts`, `document_starts`, `num_tokens` and `vocabulary`: any object with
    these is a corpus.
    """

    ids: np.ndarray
    """The ids of all passages, concatenated, int32 `(tokens,)`."""

    passage_starts: np.ndarray
    """Offset of the first token of every passage, and last the number of tokens, int64 `(passages + 1,)`, ascending."""

    document_starts: np.ndarray
    """The same for documents, `(documents + 1,)`; every document starts at the start of a passage."""

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
    """Tokenise documents. Passages without tokens are left out, as are documents without passages.

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
    """The log probability of every token from its count, with add-one (Laplace) smoothing, `(vocab_size,)`."""
    counts = np.bincount(ids, minlength=vocab_size) + 1.0
    return np.log(counts / counts.sum())
