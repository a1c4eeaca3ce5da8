"""The tokens of many texts, concatenated."""

import itertools
from dataclasses import dataclass, fields

import numpy as np


@dataclass
class FlatTokens:
    """Tokens without special ones; the last three fields are None unless offsets were requested."""

    ids: np.ndarray
    """Ids `(tokens,)`, int32."""

    lengths: np.ndarray
    """Number of tokens of every text `(texts,)`, int64."""

    starts: np.ndarray | None = None
    """The first character of every token in its text `(tokens,)`."""

    stops: np.ndarray | None = None
    """The character after the last one of every token `(tokens,)`."""

    words: np.ndarray | None = None
    """The index of its word in the text, from 0, `(tokens,)`; punctuation marks and CJK characters are words."""

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
        """The tokens of texts by their indices, in that order."""
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


def _joined(columns):
    return np.fromiter(itertools.chain.from_iterable(columns), np.int64)
