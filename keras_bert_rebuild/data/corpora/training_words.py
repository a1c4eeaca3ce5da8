"""Count the words of the documents that a corpus will be trained on, before it is tokenised."""

from collections.abc import Callable
from typing import Any

from keras_bert_rebuild.data.corpora.held_out import chosen_documents
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader, WordCounts
from keras_bert_rebuild.text.normalization import split_words

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
        held_out = set(chosen_documents(max(numbers, default=0), share, seed).tolist())
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
