"""Counting the words of a corpus."""

from collections import Counter

from keras_bert_rebuild.text.normalization import split_words

# Google's WordPiece makes longer words [UNK].
LONGEST_WORD = 200

_CHUNKS_HELD = 500_000


class WordCounts:
    """Words and how often they occur, in memory that grows with the words and not with the text.

    Args:
        cased: keep case and accents.

    Attributes:
        counts: a `Counter` of words, complete after `finish`.
        too_long: how many words of more than 200 characters were left out.
    """

    def __init__(self, cased=False):
        self.cased = cased
        self.counts = Counter()
        self.too_long = 0
        self._chunks = Counter()

    def add(self, passage):
        """Count the words of a passage."""
        # Each distinct chunk between spaces is normalised once, however often it occurs: no rule looks across a space.
        self._chunks.update(passage.split(" "))
        if len(self._chunks) > _CHUNKS_HELD:
            self.finish()

    def finish(self):
        """Count the words of the chunks that are still held; returns `counts`."""
        for chunk, count in self._chunks.items():
            for word in split_words(chunk, self.cased):
                if len(word) > LONGEST_WORD:
                    self.too_long += count
                else:
                    self.counts[word] += count
        self._chunks.clear()
        return self.counts
