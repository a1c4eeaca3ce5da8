"""Texts as users give them: checked, in slices, in parts around added tokens, or word by word with labels."""

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import BertNormalizer

from keras_bert_rebuild.text.flat_tokens import FlatTokens, ragged_range
from keras_bert_rebuild.text.tokenizer_json import OneSentence

# Unicode's white space; Python's has four control characters in addition.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

# Lone surrogates, which the package tokenizers rejects, are replaced by a character that is dropped.
_LONE = re.compile("[\ud800-\udfff]")


def rules_of(added, vocabulary):
    """`AddedToken`s by content, from strings and `AddedToken`s; a ValueError if one is not in the vocabulary."""
    rules = {}
    for token in added:
        if not isinstance(token, (str, AddedToken)):
            raise ValueError(f"added_tokens must be strings or tokenizers.AddedToken; got {type(token).__name__} {token!r:.40}.")
        rule = AddedToken(token, normalized=True) if isinstance(token, str) else token
        rules[rule.content] = rule
    unknown = [content for content in rules if not content or content not in vocabulary]
    if unknown:
        raise ValueError(f"added_tokens must be tokens of the vocabulary; got {', '.join(map(repr, unknown))}.")
    return rules


class LiteralTokens:
    """Tokens that are matched verbatim in a text by the package tokenizers, as in transformers.

    Args:
        rules: a `tokenizers.AddedToken` per token.
        ids: content of a token to its id.
        normalizer: the normalizer applied before matching `normalized` tokens, one of `tokenizers.normalizers`; None for none.
    """

    def __init__(self, rules, ids, normalizer=None):
        with OneSentence("added tokens"):
            rules = [rule for rule in rules if _written(rule, normalizer)]
            self._finder = Tokenizer(BPE())  # an empty model drops the text between the tokens
            if normalizer is not None:
                self._finder.normalizer = normalizer
            self._finder.add_tokens(rules)
        self._ids = {self._finder.token_to_id(rule.content): ids[rule.content] for rule in rules}
        self._strips = {ids[rule.content]: (rule.lstrip, rule.rstrip) for rule in rules}
        self._lowers = isinstance(normalizer, BertNormalizer) and normalizer.lowercase
        raw = [rule.content for rule in rules if not rule.normalized or normalizer is None]
        self._raw = _any_of(raw)
        # Printable ASCII is at most lower-cased by normalisation. Other texts must be normalised.
        self._in_any_text = len(raw) < len(rules) and not isinstance(normalizer, BertNormalizer)
        self._normalized = _any_of([_written(rule, normalizer) for rule in rules if rule.normalized and normalizer is not None])

    def encode(self, texts, encode):
        """The tokens of texts.

        Args:
            texts: a list of strings.
            encode: a function from a list of strings without added tokens to `FlatTokens`.
        """
        candidates = [i for i, text in enumerate(texts) if self._may_have(text)]
        if not candidates:
            return encode(texts)
        with OneSentence("added tokens"):
            rows = self._finder.encode_batch([_LONE.sub("\ufffd", texts[i]) for i in candidates], add_special_tokens=False)
        rows = {i: row for i, row in zip(candidates, rows, strict=True) if row.ids}
        if not rows:
            return encode(texts)
        parts = [part for owner, text in enumerate(texts) for part in self._split(owner, text, rows.get(owner))]
        flat = encode([part.text if part.token is None else "" for part in parts])
        return _joined(flat, parts, len(texts))

    def _may_have(self, text):
        """Whether a text may contain added tokens."""
        if self._raw is not None and self._raw.search(text):
            return True
        if self._normalized is None:
            return False
        if self._in_any_text or not (text.isascii() and text.isprintable()):
            return True
        return self._normalized.search(text.lower() if self._lowers else text) is not None

    def _split(self, owner, text, row):
        """The parts of a text in order."""
        end = 0
        for number, (start, stop) in zip(row.ids, row.offsets, strict=True) if row is not None else ():
            yield _Part(owner, end, text[end:start], None)
            token, written, end = self._ids[number], text[start:stop], stop
            # White space that a token absorbs is not part of its span.
            before, after = self._strips[token]
            start += len(written) - len(written.lstrip(WHITE)) if before else 0
            written = text[start:stop].rstrip(WHITE) if after else text[start:stop]
            yield _Part(owner, start, written, token)
        yield _Part(owner, end, text[end:], None)


def _written(rule, normalizer):
    """The form of a token in the searched text; empty if it cannot occur."""
    return rule.content if normalizer is None or not rule.normalized else normalizer.normalize_str(rule.content)


def _any_of(contents):
    return re.compile("|".join(map(re.escape, contents))) if contents else None


class _Part(NamedTuple):
    owner: int
    offset: int
    text: str
    token: int | None


def _joined(flat, parts, count):
    """The tokens of texts from those of their parts; parts that are added tokens have none yet."""
    owners, offsets = (np.array(column, np.int64) for column in (list(zip(*parts, strict=True))[:2]))
    is_token = np.array([part.token is not None for part in parts])
    lengths = flat.lengths + is_token
    last = np.cumsum(lengths) - 1
    from_text = np.ones(int(lengths.sum()), bool)
    from_text[last[is_token]] = False
    written = [part for part in parts if part.token is not None]

    def merged(old, new):
        column = np.empty(len(from_text), old.dtype)
        column[from_text], column[~from_text] = old, new
        return column

    per_text = np.bincount(owners, lengths, minlength=count).astype(np.int64)
    joined = FlatTokens(merged(flat.ids, [part.token for part in written]), per_text)
    if flat.starts is None:
        return joined
    sizes = np.array([len(part.text) for part in written], np.int64)
    shift = np.repeat(offsets, lengths)
    joined.starts = merged(flat.starts, 0) + shift
    joined.stops = merged(flat.stops, sizes) + shift
    words = flat.word_counts + is_token
    before = np.cumsum(words) - words
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    joined.words = merged(flat.words, 0) + np.repeat(before - before[first][owners], lengths)
    return joined


def encode_words(texts, encode):
    """The tokens of texts given as lists of words; word indices count these, and offsets are relative to a word."""
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


IGNORED = -100


def align_labels(
    word_ids: npt.NDArray[Any] | Sequence[Any], labels: Sequence[Any], ignored: int = IGNORED, label_all_pieces: bool = False
) -> npt.NDArray[np.int32]:
    """Give tokens the labels of their words.

    Args:
        word_ids: index of every token's word `(rows, length)`, -1 at special tokens and padding, see `Encoding.word_ids`.
        labels: the labels of the words of every row.
        ignored: the label of tokens without a label, for `SparseCategoricalCrossentropy(ignore_class=...)`.
        label_all_pieces: label every piece of a word, not only the first.

    Returns:
        Labels `(rows, length)`, int32.

    Raises:
        ValueError: a row has a word without a label, or rows have different lengths.

    Example:

    >>> align_labels([[-1, 0, 1, 1, -1]], [[5, 7]]).tolist()
    [[-100, 5, 7, -100, -100]]
    """
    if len({len(row) for row in word_ids}) > 1:
        raise ValueError("word_ids must be rows of one length, see encode_batch with pad_to=; got rows of different lengths.")
    word_ids = np.asarray(word_ids)
    if len(labels) != len(word_ids):
        raise ValueError(f"labels must be given for {len(word_ids)} rows; got {len(labels)}.")
    aligned = np.full(word_ids.shape, ignored, np.int32)
    for row, (words, values) in enumerate(zip(word_ids, labels, strict=True)):
        if words.max(initial=-1) >= len(values):
            raise ValueError(f"every word must have a label; row {row} has {words.max() + 1} words and {len(values)} labels.")
        labelled = words >= 0 if label_all_pieces else is_first_piece(words)
        aligned[row, labelled] = np.asarray(values)[words[labelled]]
    return aligned


def is_first_piece(word_ids):
    """True at the first token of every word, `(..., length)` bool."""
    word_ids = np.asarray(word_ids)
    before = np.concatenate([np.full_like(word_ids[..., :1], -1), word_ids[..., :-1]], axis=-1)
    return (word_ids >= 0) & (word_ids != before)


# Characters encoded at a time, so that intermediate arrays fit into the processor's cache.
SLICE = 1 << 16


def slices(texts, characters=None):
    """Texts in slices of about that many characters; at least one slice."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    cuts = np.flatnonzero(np.diff(ends // (characters or SLICE))) + 1
    for begin, end in itertools.pairwise([0, *cuts.tolist(), len(texts)]):
        yield texts[begin:end]


def text_list(name, value):
    """The value if it is a list of texts and not a single text; else a ValueError."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise ValueError(f"{name} must be a list of texts; got {type(value).__name__} {str(value)[:40]!r}.")
    return value


def strings(name, values):
    """The values as a list, if they are strings; else a ValueError."""
    values = list(text_list(name, values))
    if set(map(type, values)) <= {str}:  # in a tenth of the time of the next line
        return values
    wrong = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise ValueError(f"{name} must be strings; number {wrong} is {type(values[wrong]).__name__} {str(values[wrong])[:40]!r}.")
    return values


def check_unicode(texts):
    """Raise a ValueError for texts that UTF-8 cannot encode."""
    for text in texts:
        if not text.isascii():
            offset = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
            if offset is not None:
                raise ValueError(f"texts must be Unicode; got a lone surrogate, {text[offset]!a}, at character {offset} of a text.")
