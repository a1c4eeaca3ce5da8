"""Tokens and words of many texts, concatenated; words are found with NumPy over code points."""

import itertools
from dataclasses import dataclass, fields

import numpy as np

from keras_bert_rebuild.text.normalization import CONTEXT, normalised, spaced_in_context


@dataclass
class FlatTokens:
    """Tokens without special ones; the last three fields are None unless offsets were requested."""

    ids: np.ndarray
    """Ids `(tokens,)`, int32."""

    lengths: np.ndarray
    """Number of tokens per text `(texts,)`, int64."""

    starts: np.ndarray | None = None
    """Index of the first character of every token in its text `(tokens,)`."""

    stops: np.ndarray | None = None
    """Index after the last character of every token `(tokens,)`."""

    words: np.ndarray | None = None
    """Index, from 0, of its word in the text, `(tokens,)`; punctuation marks and CJK characters are words."""

    @property
    def first(self):
        """The index of the first token of every text `(texts,)`."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def word_counts(self):
        """The number of words of every text `(texts,)`: the index of its last token's word, plus one."""
        counts = np.zeros(len(self.lengths), np.int64)
        has = self.lengths > 0
        counts[has] = self.words[np.cumsum(self.lengths)[has] - 1] + 1
        return counts

    def take(self, texts):
        """The tokens of the texts with these indices, in that order."""
        source = ragged_range(self.first[texts], self.lengths[texts])
        return FlatTokens(self.ids[source], self.lengths[texts], *(x if x is None else x[source] for x in self._offset_columns()))

    def _offset_columns(self):
        return self.starts, self.stops, self.words


def concatenate(parts):
    """Several `FlatTokens` as one."""
    parts = list(parts)
    columns = ([getattr(part, field.name) for part in parts] for field in fields(FlatTokens))
    return FlatTokens(*(None if column[0] is None else np.concatenate(column) for column in columns))


def ragged_range(starts, counts):
    """For each start, `counts` consecutive numbers from it, concatenated.

    Example:

    >>> ragged_range(np.array([10, 20]), np.array([3, 2])).tolist()
    [10, 11, 12, 20, 21]
    """
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def flat_encodings(encodings, with_offsets):
    """The `FlatTokens` of `tokenizers.Encoding`s without special tokens.

    Args:
        encodings: a list, one for each text.
        with_offsets: also return starts, stops and words.
    """
    lengths = np.array([len(encoding) for encoding in encodings], np.int64)
    flat = FlatTokens(_joined([encoding.ids for encoding in encodings]).astype(np.int32), lengths)
    if with_offsets:
        offsets = _joined([itertools.chain.from_iterable(encoding.offsets) for encoding in encodings]).reshape(-1, 2)
        flat.starts, flat.stops = offsets[:, 0].copy(), offsets[:, 1].copy()
        flat.words = _joined([encoding.word_ids for encoding in encodings])
    return flat


def trim_spaces(flat, texts, before, after, is_space):
    """Exclude spaces of the texts at both ends of tokens from their offsets, in place.

    A space that is in a token alone, since a tokenizer puts one before every word, is not in the text and takes no character.

    Args:
        flat: `FlatTokens` with offsets.
        texts: the texts, a list of strings.
        before, after: the number of spaces at the beginning and at the end of every token `(tokens,)`; for a token of spaces alone
            `before` is -1.
        is_space: a function from a character to whether it becomes a space in tokens.
    """
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    base = np.repeat(np.cumsum(sizes) - sizes, flat.lengths)
    spaces = {}
    for counts, ends, step in ((before, flat.starts, 1), (after, flat.stops, -1)):
        rows = np.flatnonzero(counts > 0)
        while len(rows):
            rows = rows[flat.starts[rows] < flat.stops[rows]]
            chars = codes[base[rows] + ends[rows] + min(step, 0)]
            for code in np.unique(chars).tolist():
                if code not in spaces:
                    spaces[code] = is_space(chr(code))
            rows = rows[[spaces[code] for code in chars.tolist()]] if len(rows) else rows
            ends[rows] += step
            counts[rows] -= 1
            rows = rows[counts[rows] > 0]
    flat.stops = np.where(before < 0, flat.starts, flat.stops)


def _joined(columns):
    return np.fromiter(itertools.chain.from_iterable(columns), np.int64)


# Instead of the length of a form: not known yet, or dependent on neighbouring characters.
_UNKNOWN, _IN_CONTEXT = 255, 254

_SPACE = ord(" ")


@dataclass
class FlatWords:
    """Words as in Google's `BasicTokenizer`; the last two fields are None unless offsets were requested."""

    characters: np.ndarray
    """The code points of all words and of the spaces between them, uint32."""

    begins: np.ndarray
    """The index of the first character of every word `(words,)`."""

    stops: np.ndarray
    """The index after the last character of every word `(words,)`."""

    lengths: np.ndarray
    """Number of words of every text `(texts,)`, int64."""

    origins: np.ndarray | None = None
    """The offset of every character's original in the line of all texts, each preceded by a space, `(characters,)`."""

    texts: np.ndarray | None = None
    """The offset of every text in that line, `(texts,)`."""

    def strings(self, words):
        """The words with these indices, as strings."""
        line = self.characters.tobytes().decode("utf-32-le", "surrogatepass")
        return [line[begin:stop] for begin, stop in zip(self.begins[words].tolist(), self.stops[words].tolist(), strict=True)]


class WordSplitter:
    """Normalises texts and splits them into words.

    The form of a character is computed once, with spaces around it if it is a word by itself. The few characters whose form depends
    on their neighbours are normalised together with everything up to the next spaces.

    Args:
        settings: `WordPieceSettings`.
    """

    def __init__(self, settings):
        self._settings = settings
        self._sizes = np.full(0x110000, _UNKNOWN, np.uint8)
        self._first = np.zeros(0x110000, np.int32)
        # White space is form 0, and no other character has that form.
        self._forms = np.array([_SPACE], np.uint32)

    def __call__(self, texts, with_offsets):
        """The words of texts, a `FlatWords`.

        Args:
            texts: a list of strings.
            with_offsets: also return the offsets of the characters of words.
        """
        line = f" {' '.join(texts)} "
        codes = np.frombuffer(line.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
        spaces = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
        first, sizes, forms, contexts = self._looked_up(line, codes)
        ends = np.cumsum(sizes)
        source = np.repeat(first + sizes - ends, sizes)
        source += np.arange(len(source))
        characters = forms.take(source)
        is_space = characters == _SPACE
        # The first and the last character are spaces.
        begins, stops = (np.flatnonzero(is_space[1:] != is_space[:-1]) + 1).reshape(-1, 2).T
        before = np.searchsorted(begins, ends[spaces])
        flat = FlatWords(characters, begins, stops, np.diff(before, prepend=0))
        if with_offsets:
            flat.texts = np.append(0, spaces)[:-1] + 1
            flat.origins = np.repeat(np.arange(len(codes)), sizes)
            for begin, origins in contexts:
                flat.origins[ends[begin] - len(origins) : ends[begin]] = np.add(origins, begin)
        return flat

    def _looked_up(self, line, codes):
        """The index of every character's form, its length, all forms, and the forms that depend on neighbours."""
        sizes = self._sizes.take(codes)
        if sizes.max() == _UNKNOWN:
            unknown = codes[sizes == _UNKNOWN]
            are_unknown = np.zeros(unknown.max() + 1, bool)
            are_unknown[unknown] = True
            self._add_forms(np.flatnonzero(are_unknown).tolist())
            sizes = self._sizes.take(codes)
        first = self._first.take(codes)
        if sizes.max() == _IN_CONTEXT:
            return self._in_context(line, first, sizes)
        return first, sizes.astype(np.int64), self._forms, []

    def _add_forms(self, codes):
        added = []
        for code in codes:
            form = normalised(chr(code), self._settings)
            self._sizes[code] = _IN_CONTEXT if form == CONTEXT else len(form)
            if form != " ":
                self._first[code] = len(self._forms) + len(added)
                added += map(ord, form)
        self._forms = np.append(self._forms, np.array(added, np.uint32))

    def _in_context(self, line, first, sizes):
        """What `_looked_up` returns, but everything between two spaces has one form, assigned to the first character."""
        white = np.flatnonzero((sizes == 1) & (first == 0))
        dependent = np.unique(np.searchsorted(white, np.flatnonzero(sizes == _IN_CONTEXT)))
        sizes, added, contexts = sizes.astype(np.int64), [], []
        for begin, end in zip((white[dependent - 1] + 1).tolist(), white[dependent].tolist(), strict=True):
            form, origins = spaced_in_context(line[begin:end], self._settings)
            first[begin] = len(self._forms) + len(added)
            sizes[begin:end] = 0
            sizes[begin] = len(form)
            added += map(ord, form)
            contexts.append((begin, origins))
        return first, sizes, np.append(self._forms, np.array(added, np.uint32)), contexts
