"""The tokens of many texts, one behind the other."""

from dataclasses import dataclass, fields

import numpy as np


@dataclass
class FlatTokens:
    """Tokens without special ones around them; the last three are None unless offsets were asked for."""

    ids: np.ndarray
    """Ids `(tokens,)`, int32."""

    lengths: np.ndarray
    """Tokens of every text `(texts,)`, int64."""

    starts: np.ndarray | None = None
    """The character of its text where every token starts `(tokens,)`."""

    stops: np.ndarray | None = None
    """The character behind its last one `(tokens,)`."""

    words: np.ndarray | None = None
    """The number of its word in the text, from 0, `(tokens,)`; punctuation marks and CJK characters are words."""

    @property
    def first(self):
        """Where the tokens of every text begin `(texts,)`."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def word_counts(self):
        """How many words every text has `(texts,)`: the number of its last token's, and one."""
        counts = np.zeros(len(self.lengths), np.int64)
        has = self.lengths > 0
        counts[has] = self.words[np.cumsum(self.lengths)[has] - 1] + 1
        return counts

    def take(self, texts):
        """The tokens of texts by their indexes, in the order given."""
        source = ragged_range(self.first[texts], self.lengths[texts])
        return FlatTokens(self.ids[source], self.lengths[texts], *(x if x is None else x[source] for x in self._places()))

    def _places(self):
        return self.starts, self.stops, self.words


def concatenate(parts):
    """Several `FlatTokens` as one."""
    parts = list(parts)
    columns = ([getattr(part, field.name) for part in parts] for field in fields(FlatTokens))
    return FlatTokens(*(None if column[0] is None else np.concatenate(column) for column in columns))


def ragged_range(starts, counts):
    """The numbers from every start on, so many each, one behind the other.

    Example:

    >>> ragged_range(np.array([10, 20]), np.array([3, 2])).tolist()
    [10, 11, 12, 20, 21]
    """
    behind = np.cumsum(counts)
    return np.arange(behind[-1] if len(behind) else 0) + np.repeat(starts - behind + counts, counts)
