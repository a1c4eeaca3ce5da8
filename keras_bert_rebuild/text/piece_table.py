"""The pieces of every word seen so far, gathered by NumPy."""

import threading
from array import array
from itertools import chain

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens, ragged_range
from keras_bert_rebuild.text.flat_words import WordSplitter
from keras_bert_rebuild.text.longest_match import MAX_WORD_CHARACTERS, LongestMatch
from keras_bert_rebuild.text.word_index import WordIndex

# After so many tokens of words that are not in the vocabulary the table is emptied, so that it stays below some 100 MB.
MAX_TOKENS = 1 << 20

# Fewer new words are cut sooner than TensorFlow is called.
MANY = 128


class PieceTable:
    """From texts to ids, and to where tokens stand in their texts.

    A word of the vocabulary is its own piece, and a word that came before is found by its characters; all else is gathering from
    flat arrays.

    Args:
        vocabulary: token to id.
        unknown_id: the id of `[UNK]`.
        settings: `WordPieceSettings`.
        many: from a list of words to the ids of their pieces, where in the word these stop, and how many each word has: a faster
            way for `MANY` new words at once, that may give None.
    """

    def __init__(self, vocabulary, unknown_id, settings, many=None):
        self._vocabulary = vocabulary
        self._unknown_id = unknown_id
        self._split = WordSplitter(settings)
        self._match = LongestMatch(vocabulary)
        self._many = many
        self._lock = threading.Lock()
        self._clear()

    def encode(self, texts, places):
        """The tokens of texts.

        Args:
            texts: a list of strings.
            places: give starts, stops and words.

        Returns:
            A `FlatTokens`.
        """
        with self._lock:  # the arrays may not grow while they are read
            if len(self._ids) > len(self._vocabulary) + MAX_TOKENS:
                self._clear()
            words = self._split(texts, places)
            complete = False
            try:
                rows = self._rows(words)
                complete = True
            finally:
                if not complete:  # stopped half-way, there are words without tokens
                    self._clear()
            return self._gather(words, rows, places)

    def _clear(self):
        """Go back to the words of the vocabulary."""
        # NUL, which no word has, ends a string in NumPy.
        whole = [token for token in self._vocabulary if 0 < len(token) <= MAX_WORD_CHARACTERS and "\0" not in token]
        self._index = WordIndex()
        self._index.add(whole, 0)
        self._ids = array("i", map(self._vocabulary.__getitem__, whole))
        self._ends = array("q", range(len(whole) + 1))
        self._starts, self._stops = array("i", bytes(4 * len(whole))), array("i", map(len, whole))

    def _rows(self, words):
        """The rows of words, those of new ones behind all others."""
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
        behind = np.cumsum(counts)
        # The pieces of a word follow one another.
        starts = np.append(0, stops)[:-1]
        starts[behind - counts] = 0
        self._ends.frombytes((behind + self._ends[-1]).tobytes())
        for column, values in ((self._ids, ids), (self._starts, starts), (self._stops, stops)):
            column.frombytes(values.astype(np.int32).tobytes())

    def _one_by_one(self, words):
        """The ids of the pieces of words, where in the word they stop, and how many each word has."""
        pieces = [self._match(word) or [self._unknown_id, len(word)] for word in words]
        counts = np.fromiter(map(len, pieces), np.int64, len(pieces)) // 2
        ids, stops = np.fromiter(chain.from_iterable(pieces), np.int64, 2 * int(counts.sum())).reshape(-1, 2).T
        return ids, stops, counts

    def _gather(self, words, rows, places):
        """The tokens of words by their rows."""
        ends = np.frombuffer(self._ends, np.int64)
        first = ends[rows]
        counts = ends[rows + 1] - first
        source = ragged_range(first, counts)
        behind = np.append(0, np.cumsum(counts))
        words_behind = np.cumsum(words.lengths)
        lengths = behind[words_behind] - behind[words_behind - words.lengths]
        flat = FlatTokens(np.frombuffer(self._ids, np.int32)[source], lengths)
        if places:
            begins = np.repeat(words.begins, counts)
            texts = np.repeat(words.texts, lengths)
            flat.starts = words.origins[begins + np.frombuffer(self._starts, np.int32)[source]] - texts
            flat.stops = words.origins[begins + np.frombuffer(self._stops, np.int32)[source] - 1] + 1 - texts
            flat.words = np.repeat(ragged_range(np.zeros_like(words.lengths), words.lengths), counts)
        return flat
