"""The pieces of every stretch of text seen so far, gathered by NumPy."""

import re
import threading
from array import array
from itertools import accumulate, chain

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens, ragged_range, restarted
from keras_bert_rebuild.text.google_normalization import CharacterTable, words_and_origins, words_of
from keras_bert_rebuild.text.longest_match import LongestMatch

# A longer stretch between two spaces will hardly come again: Chinese, Japanese and Thai have no spaces.
MAX_KEPT_CHARACTERS = 24

# Beyond so many tokens the table is emptied, so that it stays below some 100 MB.
MAX_TOKENS = 1 << 21

MAX_WORDS = 1 << 18

MANY = 64

PLAIN = re.compile("([!-/:-@[-`{-~“”‘’—–…«»]*)([A-Za-z0-9]+)([!-/:-@[-`{-~“”‘’—–…«»]*)")


class PieceTable:
    """From texts to ids, and to where tokens stand in their texts.

    A space ends every context of Google's algorithm, so that a text has the tokens of its stretches between spaces, one behind the
    other. A stretch that came before is one look into a dictionary; all else is gathering from flat arrays.

    Args:
        vocabulary: token to id.
        unknown_id: the id of `[UNK]`.
        cased: keep case and accents.
        offsets: keep the characters and words of tokens too.
        many: from a list of stretches to their `FlatTokens`, a faster way for `MANY` new ones at once; None where it does not work.
    """

    def __init__(self, vocabulary, unknown_id, cased, offsets, many=None):
        self._match = LongestMatch(vocabulary)
        self._unknown_id = unknown_id
        self._characters = CharacterTable(cased)
        self._cased = cased
        self._offsets = offsets
        self._many = many
        self._lock = threading.Lock()
        self._clear()

    def encode(self, texts):
        """Ids of texts.

        Args:
            texts: a list of strings.

        Returns:
            A `FlatTokens`.
        """
        with self._lock:  # the arrays may not grow while they are read
            if len(self._ids) > MAX_TOKENS:
                self._clear()
            if len(self._words) > MAX_WORDS:
                self._words.clear()
            stretches = [text.split(" ") for text in texts]
            counts = np.fromiter(map(len, stretches), np.int64, len(stretches))
            complete = False
            try:
                rows = np.fromiter(map(self._rows.__getitem__, chain.from_iterable(stretches)), np.int64, int(counts.sum()))
                self._resolve()
                complete = True
            finally:
                if not complete:  # stopped half-way, there are rows without tokens
                    self._clear()
            return self._gather(stretches, counts, rows)

    def _resolve(self):
        """Append the tokens of new stretches."""
        new, self._rows.new = self._rows.new, []
        many = self._many(new) if self._many is not None and len(new) >= MANY else None
        if many is None:
            for stretch in new:
                (self._add_with_offsets if self._offsets else self._add)(stretch)
            return
        last = self._ends[-1]
        self._ids.frombytes(many.ids.astype(np.int32).tobytes())
        self._ends.frombytes((np.cumsum(many.lengths) + last).astype(np.int64).tobytes())
        if self._offsets:
            for column, values in ((self._starts, many.starts), (self._stops, many.stops), (self._word_ids, many.words)):
                column.frombytes(values.astype(np.int32).tobytes())
            self._word_counts.frombytes(many.word_counts.astype(np.int32).tobytes())

    def _gather(self, stretches, counts, rows):
        ends = np.frombuffer(self._ends, np.int64)
        tokens = ends[rows + 1] - ends[rows]
        source = ragged_range(ends[rows], tokens)
        ids = np.frombuffer(self._ids, np.int32)[source]
        # A text has one stretch at least, so that no part is empty.
        first = np.cumsum(counts) - counts
        lengths = np.add.reduceat(tokens, first) if len(first) else counts
        if not self._offsets:
            return FlatTokens(ids, lengths)
        sizes = np.fromiter(map(len, chain.from_iterable(stretches)), np.int64, len(rows)) + 1
        words = np.frombuffer(self._word_counts, np.int32)[rows].astype(np.int64)
        places, words = (np.repeat(restarted(each, first, counts), tokens) for each in (sizes, words))
        starts, stops, numbers = (np.frombuffer(each, np.int32)[source] for each in (self._starts, self._stops, self._word_ids))
        return FlatTokens(ids, lengths, starts + places, stops + places, numbers + words)

    def _clear(self):
        self._rows = _Rows()
        self._words = _Words(self._match, self._unknown_id)
        self._ids, self._ends = array("i"), array("q", [0])
        self._starts, self._stops, self._word_ids, self._word_counts = (array("i") for _ in range(4))

    def _add(self, stretch):
        """Append the tokens of a stretch."""
        words = self._plain_words(stretch) or words_of(stretch, self._characters)
        for ids, _, _ in map(self._words.__getitem__, words):
            self._ids.extend(ids)
        self._ends.append(len(self._ids))

    def _add_with_offsets(self, stretch):
        plain = self._plain_words(stretch)
        if plain:
            ends = accumulate(map(len, plain))
            words = [(word, range(end - len(word), end)) for word, end in zip(plain, ends, strict=True)]
        else:
            words = words_and_origins(stretch, self._characters)
        for number, (word, origins) in enumerate(words):
            ids, starts, stops = self._words[word]
            self._ids.extend(ids)
            self._starts.extend([origins[start] for start in starts])
            self._stops.extend([origins[stop - 1] + 1 for stop in stops])
            self._word_ids.extend([number] * len(ids))
        self._word_counts.append(len(words))
        self._ends.append(len(self._ids))

    def _plain_words(self, stretch):
        """The words of a stretch as most are, an ASCII word with or without punctuation around it, or None."""
        match = PLAIN.fullmatch(stretch)
        if match is None:
            return None
        before, word, behind = match.groups()
        return [*before, word if self._cased else word.lower(), *behind]


class _Words(dict):
    """From a word to the ids of its pieces and to where in the word they start and stop."""

    def __init__(self, match, unknown_id):
        super().__init__()
        self._match = match
        self._unknown_id = unknown_id

    def __missing__(self, word):
        pieces = self._match(word) or [(self._unknown_id, 0, len(word))]
        found = self[word] = tuple(zip(*pieces, strict=True))
        return found


class _Rows(dict):
    """From a stretch to its row; one that is not there gets the next one and is noted as new."""

    def __init__(self):
        super().__init__()
        self.new = []
        self._count = 0

    def __missing__(self, stretch):
        row = self._count
        self._count += 1
        self.new.append(stretch)
        if len(stretch) <= MAX_KEPT_CHARACTERS:
            self[stretch] = row
        return row
