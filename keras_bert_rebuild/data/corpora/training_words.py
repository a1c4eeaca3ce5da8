"""The words of the documents of a corpus that will be trained on, counted before it is tokenised."""

from collections.abc import Callable
from typing import Any

from keras_bert_rebuild.data.corpora.held_out import chosen_documents
from keras_bert_rebuild.data.corpora.read_corpus import CorpusReader, WordCounts
from keras_bert_rebuild.text.normalization import split_words

# The progress advances with each block.
BLOCK_BYTES = 1_000_000


def count_training_words(
    corpus: Any,
    words: WordCounts,
    share: float,
    seed: int = 0,
    document_per_file: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Count the words of all documents but those that `split_documents` will hold out.

    What is held out is decided by the number of a document in the token store, which has no documents without words. So a
    vocabulary from these words knows nothing of the text that it is evaluated on, and that text needs no file of its own. The
    corpus is read twice: first to count its documents.

    Args:
        corpus: a file or folder: see `CorpusReader`.
        words: where they are counted.
        share: the fraction of the documents to hold out; 0 for none.
        seed: a whole number, that of the split.
        document_per_file: each file is one document, regardless of blank lines.
        progress: called as `progress(file_bytes, text_bytes)`, with the bytes of both passes.

    Returns:
        The number of documents, of both kinds.

    Raises:
        ValueError: the corpus is not usable, or too small to hold out a part of it.
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
    """Yield the number, from 1, and the passages of every document with a word; one that several blocks have, in parts."""
    reader = CorpusReader(corpus, document_per_file, BLOCK_BYTES)
    count = done = 0
    begun = False  # whether the document before had a word
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
