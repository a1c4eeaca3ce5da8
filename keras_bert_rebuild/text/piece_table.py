"""A cache of the pieces of words, gathered by NumPy."""

import threading
from array import array
from itertools import chain

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens, ragged_range
from keras_bert_rebuild.text.flat_words import WordSplitter
from keras_bert_rebuild.text.longest_match import MAX_WORD_CHARACTERS, LongestMatch
from keras_bert_rebuild.text.word_index import WordIndex

# After this many tokens of words outside the vocabulary the table is emptied, so that it stays below about 100 MB.
MAX_TOKENS = 1 << 20

# For fewer new words a call of TensorFlow takes longer than splitting them here.
MANY = 128


class PieceTable:
    """Maps texts to ids and to the offsets of tokens.

    A word of the vocabulary is its own piece, and a known word is found by its characters; the rest is gathering from flat arrays.

    Args:
        vocabulary: token to id.
        unknown_id: the id of `[UNK]`.
        settings: `WordPieceSettings`.
        many: a faster function for at least `MANY` new words: it maps a list of words to the ids of their pieces, their stops in
            the word, and the number of pieces of each word; it may return None.
    """

    def __init__(self, vocabulary, unknown_id, settings, many=None):
        self._vocabulary = vocabulary
        self._unknown_id = unknown_id
        self._split = WordSplitter(settings)
        self._match = LongestMatch(vocabulary)
        self._many = many
        self._lock = threading.Lock()
        self._clear()

    def encode(self, texts, with_offsets):
        """The tokens of texts.

        Args:
            texts: a list of strings.
            with_offsets: also return starts, stops and words.

        Returns:
            A `FlatTokens`.
        """
        with self._lock:  # the arrays may not grow while they are read
            if len(self._ids) > len(self._vocabulary) + MAX_TOKENS:
                self._clear()
            words = self._split(texts, with_offsets)
            complete = False
            try:
                rows = self._rows(words)
                complete = True
            finally:
                if not complete:  # interrupted: some words have no tokens
                    self._clear()
            return self._gather(words, rows, with_offsets)

    def _clear(self):
        """Reset the table to the words of the vocabulary."""
        # NUL ends a string in NumPy; no word contains it.
        whole = [token for token in self._vocabulary if 0 < len(token) <= MAX_WORD_CHARACTERS and "\0" not in token]
        self._index = WordIndex()
        self._index.add(whole, 0)
        self._ids = array("i", map(self._vocabulary.__getitem__, whole))
        self._ends = array("q", range(len(whole) + 1))
        self._starts, self._stops = array("i", bytes(4 * len(whole))), array("i", map(len, whole))

    def _rows(self, words):
        """The rows of words; new words are appended."""
        rows = self._index.find(words.characters, words.begins, words.stops)
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            first, numbers = len(self._ends) - 1, {}
            rows[missing] = [numbers.setdefault(word, len(numbers) + first) for word in words.strings(missing)]
            new = list(numbers)
            self._append(new)
            self._index.add(new, first)
        return rows

    def _append(self, words):
        """Append the tokens of new words."""
        found = self._many(words) if self._many is not None and len(words) >= MANY else None
        ids, stops, counts = self._one_by_one(words) if found is None else found
        ends = np.cumsum(counts)
        # The pieces of a word are adjacent.
        starts = np.append(0, stops)[:-1]
        starts[ends - counts] = 0
        self._ends.frombytes((ends + self._ends[-1]).tobytes())
        for column, values in ((self._ids, ids), (self._starts, starts), (self._stops, stops)):
            column.frombytes(values.astype(np.int32).tobytes())

    def _one_by_one(self, words):
        """The ids of the pieces of words, their stops in the word, and the number of pieces of each word."""
        pieces = [self._match(word) or [self._unknown_id, len(word)] for word in words]
        counts = np.fromiter(map(len, pieces), np.int64, len(pieces)) // 2
        ids, stops = np.fromiter(chain.from_iterable(pieces), np.int64, 2 * int(counts.sum())).reshape(-1, 2).T
        return ids, stops, counts

    def _gather(self, words, rows, with_offsets):
        """The tokens of words by their rows."""
        ends = np.frombuffer(self._ends, np.int64)
        first = ends[rows]
        counts = ends[rows + 1] - first
        source = ragged_range(first, counts)
        token_ends = np.append(0, np.cumsum(counts))
        word_ends = np.cumsum(words.lengths)
        lengths = token_ends[word_ends] - token_ends[word_ends - words.lengths]
        flat = FlatTokens(np.frombuffer(self._ids, np.int32)[source], lengths)
        if with_offsets:
            begins = np.repeat(words.begins, counts)
            texts = np.repeat(words.texts, lengths)
            flat.starts = words.origins[begins + np.frombuffer(self._starts, np.int32)[source]] - texts
            flat.stops = words.origins[begins + np.frombuffer(self._stops, np.int32)[source] - 1] + 1 - texts
            flat.words = np.repeat(ragged_range(np.zeros_like(words.lengths), words.lengths), counts)
        return flat
