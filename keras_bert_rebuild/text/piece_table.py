"""WordPiece as in Google's code: greedy longest match; a word is split completely or is unknown.

The pieces of all words seen so far are looked up with NumPy, thousands of words at a time.
"""

import secrets
import threading
from array import array
from itertools import chain

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens, WordSplitter, ragged_range

# Longer words are `[UNK]`.
MAX_WORD_CHARACTERS = 200

# 16 characters of 16 bits are four 64-bit integers.
MAX_CHARACTERS = 16

_KEY = MAX_CHARACTERS // 4


class LongestMatch:
    """Splits words into the pieces of a vocabulary.

    Args:
        vocabulary: token to id; a token that continues a word starts with `##`.

    Reference: `WordpieceTokenizer` in `tokenization.py` of google-research/bert; Wu et al., 2016, section 4.1.
    """

    def __init__(self, vocabulary):
        self._first = vocabulary
        self._rest = {token[2:]: i for token, i in vocabulary.items() if token.startswith("##")}
        self._longest_first, self._longest_rest = _longest(self._first), _longest(self._rest)

    def __call__(self, word):
        """The pieces of a word.

        Returns:
            A list of alternating ids and stops: a piece covers the characters from the stop of the previous piece to its own. None
            if the word is unknown.
        """
        length = len(word)
        if length > MAX_WORD_CHARACTERS:
            return None
        pieces, start = [], 0
        ids, longest = self._first, self._longest_first
        while start < length:
            stop = min(start + longest.get(word[start : start + 2], 1), length)
            while stop > start:
                i = ids.get(word[start:stop])
                if i is not None:
                    break
                stop -= 1
            else:
                return None
            pieces += i, stop
            start = stop
            ids, longest = self._rest, self._longest_rest
        return pieces


def _longest(pieces):
    """The length of the longest piece for every first two characters."""
    longest = {}
    for piece in pieces:
        if len(piece) > 1:
            longest[piece[:2]] = max(longest.get(piece[:2], 0), len(piece))
    return longest


class WordIndex:
    """A hash table with open addressing that looks up many words at a time.

    A dictionary would need a string and a look-up per word. Here a word is a span of an array of characters, and its key is the
    characters themselves, so look-ups are exact.
    """

    def __init__(self):
        # Random, so that nobody can craft words that all collide.
        self._factors = np.array([secrets.randbits(64) | 1 for _ in range(_KEY)], np.uint64)
        # For every length, the bits of a key that it occupies.
        self._masks = (np.tri(MAX_CHARACTERS + 2, MAX_CHARACTERS, -1, np.uint16) * np.uint16(0xFFFF)).view(np.uint64)
        self._count = 0
        self._keys, self._rows = np.zeros((1, _KEY), np.uint64), np.zeros(1, np.int64)
        self._slots = np.full(2, -1, np.int32)

    def add(self, words, first_row):
        """Add words that fit into a key; longer ones, and those with characters of more than 16 bits, are left out.

        Args:
            words: a list of distinct strings that are not in the index.
            first_row: the row of the first word; the others follow.
        """
        indices = [i for i, word in enumerate(words) if len(word) <= MAX_CHARACTERS]
        characters = np.array([words[i] for i in indices], f"U{MAX_CHARACTERS}").view(np.uint32).reshape(-1, MAX_CHARACTERS)
        rows = np.array(indices, np.int64) + first_row
        if characters.max(initial=0) > 0xFFFF:
            narrow = characters.max(1) <= 0xFFFF
            characters, rows = characters[narrow], rows[narrow]
        added = slice(self._count, self._count + len(rows))
        first, self._count = added.start, added.stop
        if self._count > len(self._rows):
            # Room for twice the rows, and at least three of four slots empty, so that an empty one is near.
            size = 2 * self._count
            self._keys, keys = np.zeros((size, _KEY), np.uint64), self._keys
            self._rows, values = np.zeros(size, np.int64), self._rows
            self._keys[:first], self._rows[:first] = keys[:first], values[:first]
            self._slots = np.full(4 << size.bit_length(), -1, np.int32)
            first = 0
        self._keys[added] = characters.astype(np.uint16).view(np.uint64)
        self._rows[added] = rows
        numbers = np.arange(first, self._count)
        slots = self._first_slots(self._keys[first : self._count])
        while len(numbers):
            free = self._slots[slots] < 0
            # If several words hash to one slot, the last one gets it.
            self._slots[slots[free]] = numbers[free]
            left = self._slots[slots] != numbers
            numbers, slots = numbers[left], (slots[left] + 1) % len(self._slots)

    def find(self, characters, begins, stops):
        """The rows of words.

        Args:
            characters: code points, uint32, without NUL.
            begins: the index of the first character of every word `(words,)`.
            stops: the index after its last character.

        Returns:
            Rows `(words,)`, int64, -1 for a missing word.
        """
        sizes = np.minimum(stops - begins, MAX_CHARACTERS + 1)
        if characters.max(initial=0) > 0xFFFF:
            sizes[np.searchsorted(stops, np.flatnonzero(characters > 0xFFFF), side="right")] = MAX_CHARACTERS + 1
        padded = np.append(characters.astype(np.uint16), np.zeros(MAX_CHARACTERS, np.uint16))
        # The bytes of a key starting at every character.
        windows = np.ndarray(len(characters) + 1, f"V{2 * MAX_CHARACTERS}", padded, 0, padded.strides)
        keys = windows[begins].view(np.uint64).reshape(-1, _KEY) & self._masks.take(sizes, 0)
        slots = self._first_slots(keys)
        numbers = self._slots[slots].astype(np.int64)
        unequal = np.flatnonzero(self._are_others(numbers, keys))
        while len(unequal):
            slots[unequal] = (slots[unequal] + 1) % len(self._slots)
            numbers[unequal] = self._slots[slots[unequal]]
            unequal = unequal[self._are_others(numbers[unequal], keys[unequal])]
        return np.where((numbers >= 0) & (sizes <= MAX_CHARACTERS), self._rows[numbers], -1)

    def _are_others(self, numbers, keys):
        """Whether a slot has a different word."""
        same = self._keys.take(numbers, 0) == keys
        # The four comparisons of a key at once: NumPy is slow along short axes.
        return (same.view(np.uint32).ravel() != 0x01010101) & (numbers >= 0)

    def _first_slots(self, keys):
        mixed = keys[:, 0] * self._factors[0]
        for column in range(1, _KEY):
            mixed += keys[:, column] * self._factors[column]
        # Upper bits depend on all lower ones.
        bits = len(self._slots).bit_length() - 1
        return ((mixed ^ (mixed >> np.uint64(32))) * self._factors[0] >> np.uint64(64 - bits)).astype(np.int64)


# Maximum number of tokens of words outside the vocabulary, at which the table is emptied: about 100 MB.
MAX_TOKENS = 1 << 20


class PieceTable:
    """Maps texts to ids and to the offsets of tokens, exactly as Google's code does, on every backend.

    The package tokenizers differs from Google's code (words of more than 100 characters, private-use characters) and is five to
    sixteen times slower on words that were seen before.

    A word of the vocabulary is its own piece, and a known word is found by its characters; the rest is indexing into flat arrays.

    Args:
        vocabulary: token to id.
        unknown_id: the id of `[UNK]`.
        settings: `WordPieceSettings`.
    """

    def __init__(self, vocabulary, unknown_id, settings):
        self._vocabulary = vocabulary
        self._unknown_id = unknown_id
        self._split = WordSplitter(settings)
        self._match = LongestMatch(vocabulary)
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
        with self._lock:  # arrays must not grow while they are read
            if len(self._ids) > len(self._vocabulary) + MAX_TOKENS:
                self._clear()
            words = self._split(texts, with_offsets)
            complete = False
            try:
                rows = self._rows(words)
                complete = True
            finally:
                if not complete:  # interrupted: some words have no tokens yet
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
        pieces = [self._match(word) or [self._unknown_id, len(word)] for word in words]
        counts = np.fromiter(map(len, pieces), np.int64, len(pieces)) // 2
        ids, stops = np.fromiter(chain.from_iterable(pieces), np.int64, 2 * int(counts.sum())).reshape(-1, 2).T
        ends = np.cumsum(counts)
        # The pieces of a word are adjacent.
        starts = np.append(0, stops)[:-1]
        starts[ends - counts] = 0
        self._ends.frombytes((ends + self._ends[-1]).tobytes())
        for column, values in ((self._ids, ids), (self._starts, starts), (self._stops, stops)):
            column.frombytes(values.astype(np.int32).tobytes())

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
