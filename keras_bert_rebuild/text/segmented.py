"""Texts that are encoded in parts: between tokens that stand for themselves, or word by word."""

import re
from typing import NamedTuple

import numpy as np

from keras_bert_rebuild.text.flat_tokens import FlatTokens, ragged_range

# Unicode's white space; Python's own has four control characters more.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class LiteralTokens:
    """Tokens that are one token wherever they are written.

    Args:
        ids: token to id; where two begin at the same character the longer one is meant.
        takes_space: those of them that the white space before them belongs to.
        any_case: those of them that are meant in whatever case they are written.
    """

    def __init__(self, ids, takes_space=(), any_case=()):
        self._ids = {**{token.lower(): ids[token] for token in any_case}, **ids}
        self._takes_space = takes_space
        longest_first = sorted(ids, key=len, reverse=True)
        patterns = (f"(?i:{re.escape(token)})" if token in any_case else re.escape(token) for token in longest_first)
        self._pattern = re.compile("|".join(patterns)) if ids else None

    def encode(self, texts, encode):
        """The tokens of texts.

        Args:
            texts: a list of strings.
            encode: from a list of strings without such tokens to `FlatTokens`.
        """
        if self._pattern is None or not any(map(self._pattern.search, texts)):
            return encode(texts)
        parts = [part for owner, text in enumerate(texts) for part in self._split(owner, text)]
        flat = encode(["" if part.is_token else part.text for part in parts])
        return _joined(flat, parts, self._ids, len(texts))

    def _split(self, owner, text):
        """The parts of a text in order."""
        end = 0
        for match in self._pattern.finditer(text):
            before = text[end : match.start()]
            yield _Part(owner, end, before.rstrip(WHITE) if match.group() in self._takes_space else before, False)
            yield _Part(owner, match.start(), match.group(), True)
            end = match.end()
        yield _Part(owner, end, text[end:], False)


class _Part(NamedTuple):
    owner: int
    place: int
    text: str
    is_token: bool


def _joined(flat, parts, ids, count):
    """The tokens of texts from those of their parts; the parts that are tokens have none yet."""
    owners, places = (np.array(column, np.int64) for column in (list(zip(*parts, strict=True))[:2]))
    tokens = np.array([part.is_token for part in parts])
    lengths = flat.lengths + tokens
    last = np.cumsum(lengths) - 1
    where = np.ones(int(lengths.sum()), bool)
    where[last[tokens]] = False
    written = [part.text for part in parts if part.is_token]

    def merged(old, new):
        column = np.empty(len(where), old.dtype)
        column[where], column[~where] = old, new
        return column

    per_text = np.bincount(owners, lengths, minlength=count).astype(np.int64)
    joined = FlatTokens(merged(flat.ids, [ids[text] if text in ids else ids[text.lower()] for text in written]), per_text)
    if flat.starts is None:
        return joined
    sizes = np.array([len(text) for text in written], np.int64)
    shift = np.repeat(places, lengths)
    joined.starts = merged(flat.starts, 0) + shift
    joined.stops = merged(flat.stops, sizes) + shift
    words = flat.word_counts + tokens
    before = np.cumsum(words) - words
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    joined.words = merged(flat.words, 0) + np.repeat(before - before[first][owners], lengths)
    return joined


def encode_words(texts, encode):
    """The tokens of texts that are lists of words; words are numbered as given, offsets are inside a word."""
    for i, words in enumerate(texts):
        if isinstance(words, (str, bytes)) or not hasattr(words, "__len__"):
            got = f"{type(words).__name__} {str(words)[:40]!r}"
            raise ValueError(f"with is_pretokenized every text must be a list of words; text {i} is {got}.")
    counts = np.array([len(words) for words in texts], np.int64)
    flat = encode([word for words in texts for word in words])
    owners = np.repeat(np.arange(len(texts)), counts)
    lengths = np.bincount(owners, flat.lengths, minlength=len(texts)).astype(np.int64)
    words = np.repeat(ragged_range(np.zeros(len(texts), np.int64), counts), flat.lengths)
    return FlatTokens(flat.ids, lengths, flat.starts, flat.stops, words)
