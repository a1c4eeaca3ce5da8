"""A map from words to rows of a table, for thousands of words at a time, in NumPy."""

import secrets

import numpy as np

# 16 characters of 16 bits are four numbers of 64 bits.
MAX_CHARACTERS = 16

_KEY = MAX_CHARACTERS // 4


class WordIndex:
    """A hash table with open addressing that looks up many words at once.

    A dictionary is looked up word by word, with a string for every word. Here a word is a span of an array of characters, and its
    key is the characters themselves, so that the result is exact.
    """

    def __init__(self):
        # Random, so that nobody can craft words that all start at one slot.
        self._factors = np.array([secrets.randbits(64) | 1 for _ in range(_KEY)], np.uint64)
        # For every number of characters, the bits of a key that they occupy.
        self._masks = (np.tri(MAX_CHARACTERS + 2, MAX_CHARACTERS, -1, np.uint16) * np.uint16(0xFFFF)).view(np.uint64)
        self._count = 0
        self._keys, self._rows = np.zeros((1, _KEY), np.uint64), np.zeros(1, np.int64)
        self._slots = np.full(2, -1, np.int32)

    def add(self, words, first_row):
        """Add the words that have a key; the few that are longer or have characters of more than 16 bits have none.

        Args:
            words: a list of distinct strings that are not in the index.
            first_row: the row of the first; the others follow.
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
            # Room for twice as many rows, and at least three of four slots free, so that an empty one is near.
            size = 2 * self._count
            self._keys, keys = np.zeros((size, _KEY), np.uint64), self._keys
            self._rows, known = np.zeros(size, np.int64), self._rows
            self._keys[:first], self._rows[:first] = keys[:first], known[:first]
            self._slots = np.full(4 << size.bit_length(), -1, np.int32)
            first = 0
        self._keys[added] = characters.astype(np.uint16).view(np.uint64)
        self._rows[added] = rows
        numbers = np.arange(first, self._count)
        slots = self._first_slots(self._keys[first : self._count])
        while len(numbers):
            free = self._slots[slots] < 0
            # If several words take one slot, the last one has it.
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
        # The bytes of a key from every character.
        windows = np.ndarray(len(characters) + 1, f"V{2 * MAX_CHARACTERS}", padded, 0, padded.strides)
        keys = windows[begins].view(np.uint64).reshape(-1, _KEY) & self._masks.take(sizes, 0)
        slots = self._first_slots(keys)
        numbers = self._slots[slots].astype(np.int64)
        others = np.flatnonzero(self._are_others(numbers, keys))
        while len(others):
            slots[others] = (slots[others] + 1) % len(self._slots)
            numbers[others] = self._slots[slots[others]]
            others = others[self._are_others(numbers[others], keys[others])]
        return np.where((numbers >= 0) & (sizes <= MAX_CHARACTERS), self._rows[numbers], -1)

    def _are_others(self, numbers, keys):
        """Whether a slot has a word that differs from this one."""
        same = self._keys.take(numbers, 0) == keys
        # The four comparisons of a key at once: NumPy is slow along short axes.
        return (same.view(np.uint32).ravel() != 0x01010101) & (numbers >= 0)

    def _first_slots(self, keys):
        mixed = keys[:, 0] * self._factors[0]
        for column in range(1, _KEY):
            mixed += keys[:, column] * self._factors[column]
        # The upper bits depend on all lower ones.
        bits = len(self._slots).bit_length() - 1
        return ((mixed ^ (mixed >> np.uint64(32))) * self._factors[0] >> np.uint64(64 - bits)).astype(np.int64)
