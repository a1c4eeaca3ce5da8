"""keras_bert's `Tokenizer` with its own WordPiece, and the offsets of its tokens in the original text, found by alignment."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_bert_rebuild.text import normalization
from keras_bert_rebuild.text.normalization import is_space
from keras_bert_rebuild.text.vocabulary import TOKEN_CLS, TOKEN_SEP, TOKEN_UNK

DIAGONAL, SKIP_TEXT, SKIP_DECODED = range(3)


def rematch(text: str, tokens: Sequence[str], cased: bool = False, unknown_token: str = TOKEN_UNK) -> list[tuple[int, int]]:
    """Find the span of every token in a text.

    Args:
        text: the original text.
        tokens: the tokens of the text; unknown ones may be `unknown_token`.
        cased: compare case.
        unknown_token: the token for unknown text.

    Returns:
        A list of `(start, stop)` in characters of `text`, one per token; special tokens have empty spans.

    Example:

    >>> rematch("All rights reserved.", ["all", "rights", "re", "##ser", "##ved", "."])
    [(0, 3), (4, 10), (11, 13), (13, 16), (16, 19), (19, 20)]
    >>> rematch("  吃了吗？    ", ["吃", "了", "吗", "？"])
    [(2, 3), (3, 4), (4, 5), (5, 6)]
    """
    decoded, spans = _decode(tokens, cased, unknown_token)
    text = text.rstrip()
    leading = next((i for i, char in enumerate(text) if not is_space(char)), 0)
    text = text[leading:]
    boundaries = _align([char if cased else char.lower() for char in text], decoded)
    matched = [[boundaries[start], boundaries[stop]] for start, stop in spans]
    _repair(text, tokens, matched, cased)
    return [(start + leading, stop + leading) for start, stop in matched]


def _decode(tokens, cased, unknown_token):
    """The text that tokens form, and the span of each token in it."""
    decoded, spans = "", []
    for token in tokens:
        piece = _bare("#" if token == unknown_token else token, cased)
        continues = len(token) > 2 and token.startswith("##")
        if decoded and not continues:
            decoded += " "
        spans.append((len(decoded), len(decoded) + len(piece)))
        decoded += piece
    return decoded, spans


def _bare(token, cased):
    token = token if cased else token.lower()
    return token[2:] if len(token) > 2 and token.startswith("##") else token


def _align(chars, decoded):
    """For every boundary between characters of `decoded`, the boundary in `chars`, by minimum edit distance.

    Reference: Wagner and Fischer, 1974.
    """
    rows, columns = len(chars) + 1, len(decoded) + 1
    moves = np.zeros((rows, columns), "uint8")
    previous = list(range(columns))
    for i in range(1, rows):
        current = [i] + [0] * (columns - 1)
        for j in range(1, columns):
            cost, move = previous[j - 1], DIAGONAL
            if chars[i - 1] != decoded[j - 1]:
                cost += 1
                if previous[j] + 1 < cost:
                    cost, move = previous[j] + 1, SKIP_TEXT
                if current[j - 1] + 1 < cost:
                    cost, move = current[j - 1] + 1, SKIP_DECODED
            current[j] = cost
            moves[i, j] = move
        previous = current
    boundaries = [0] * columns
    i, j = rows - 1, columns - 1
    boundaries[j] = i
    while i > 0 and j > 0:
        move = int(moves[i, j])
        i, j = i - (move != SKIP_DECODED), j - (move != SKIP_TEXT)
        boundaries[j] = i
    return boundaries


def _repair(text, tokens, spans, cased):
    """Extend every span that differs from its token to its neighbours or white space, in place."""
    for k, (token, span) in enumerate(zip(tokens, spans, strict=True)):
        start, stop = span
        spelt = text[start:stop] if cased else text[start:stop].lower()
        if spelt == _bare(token, cased):
            continue
        first = spans[k - 1][1] if k else 0
        last = spans[k + 1][0] if k + 1 < len(spans) else len(text)
        while start > first and not is_space(text[start - 1]):
            start -= 1
        while stop < last and not is_space(text[stop]):
            stop += 1
        span[:] = start, stop


# Pieces are tried up to the length of the longest in the vocabulary: otherwise the time would be quadratic in long words.
LONG_WORD = 200


def split_pieces(word, vocabulary):
    """Split a word into the longest pieces from left to right, as keras_bert does, for models trained with it.

    Where no piece of the vocabulary fits, one character is a piece of its own; Google makes the whole word `[UNK]` instead.

    Args:
        word: a string without white space.
        vocabulary: a set or dictionary of pieces; those that continue a word start with `##`.

    Returns:
        The pieces; those after the first start with `##`.

    Example:

    >>> split_pieces("unwanted", {"un", "##want", "##ed"})
    ['un', '##want', '##ed']

    Reference: Wu et al., 2016, section 4.1 (https://arxiv.org/abs/1609.08144).
    """
    if word in vocabulary:
        return [word]
    longest = len(word) if len(word) <= LONG_WORD else max(map(len, vocabulary), default=0)
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        stops = range(min(len(word), start + longest), start, -1)
        stop = next((stop for stop in stops if prefix + word[start:stop] in vocabulary), start + 1)
        pieces.append(prefix + word[start:stop])
        start = stop
    return pieces


class Tokenizer:
    """Splits texts into word pieces and converts them to ids, one text at a time.

    A character that no piece matches is a token by itself with the id of `[UNK]`, as in keras_bert; in Google's code the whole word
    is `[UNK]`. Special tokens written in a text are text.

    Args:
        token_dict: token to id.
        token_cls, token_sep, token_unk: the special tokens.
        pad_index: the id of padding up to `max_len`.
        cased: keep case and accents.

    Example:

    >>> tokenizer = Tokenizer({"[CLS]": 0, "[SEP]": 1, "un": 2, "##aff": 3, "##able": 4, "[UNK]": 5})
    >>> tokenizer.tokenize("unaffable")
    ['[CLS]', 'un', '##aff', '##able', '[SEP]']
    >>> tokenizer.encode("unaffable", "unknown", max_len=10)
    ([0, 2, 3, 4, 1, 2, 5, 5, 5, 1], [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    """

    def __init__(
        self,
        token_dict: Mapping[str, int],
        token_cls: str = TOKEN_CLS,
        token_sep: str = TOKEN_SEP,
        token_unk: str = TOKEN_UNK,
        pad_index: int = 0,
        cased: bool = False,
    ) -> None:
        self._token_dict = token_dict
        self._token_dict_inv = {index: token for token, index in token_dict.items()}
        self._token_cls = token_cls
        self._token_sep = token_sep
        self._token_unk = token_unk
        self._pad_index = pad_index
        self._cased = cased

    def tokenize(self, first: str, second: str | None = None) -> list[str]:
        """The tokens of a text or a pair, with `[CLS]` and `[SEP]`."""
        first_tokens = self._tokenize(_text("first", first))
        second_tokens = None if second is None else self._tokenize(_text("second", second))
        return self._pack(first_tokens, second_tokens)[0]

    def encode(self, first: str, second: str | None = None, max_len: int | None = None) -> tuple[list[int], list[int]]:
        """The ids and segments of a text or pair.

        Args:
            first: a text.
            second: the other text of a pair, or None.
            max_len: truncate to this many tokens, from the end of the longer text (the second if both are equally long), and pad to
                this length.

        Returns:
            `(ids, segments)`, two lists; segments are 0 for the first text and for padding, 1 for the second.
        """
        first_tokens = self._tokenize(_text("first", first))
        second_tokens = None if second is None else self._tokenize(_text("second", second))
        self._truncate(first_tokens, second_tokens, max_len)
        tokens, first_len, second_len = self._pack(first_tokens, second_tokens)
        ids = self._convert_tokens_to_ids(tokens)
        segments = [0] * first_len + [1] * second_len
        if max_len is not None:
            padding = max_len - len(ids)
            ids += [self._pad_index] * padding
            segments += [0] * padding
        return ids, segments

    def decode(self, ids: Iterable[int]) -> list[str] | tuple[list[str], list[str]]:
        """The tokens of encoded ids, without `[CLS]`, `[SEP]` and padding.

        Returns:
            A list of tokens, or for a pair a tuple of two lists.

        Raises:
            ValueError: there is no `[SEP]`.
            KeyError: an id is not in the vocabulary.
        """
        ids = [int(i) for i in ids]
        separator = self._token_dict[self._token_sep]
        if separator not in ids:
            raise ValueError(f"ids must have {separator}, the id of {self._token_sep}; got {ids!r:.80}.")
        stop = ids.index(separator)
        end = len(ids)
        while end > stop + 1 and ids[end - 1] == self._pad_index:
            end -= 1
        tokens = [self._token_dict_inv[i] for i in ids[:end]]
        first = tokens[1:stop]
        return (first, tokens[stop + 1 : end - 1]) if stop < end - 1 else first

    rematch = staticmethod(rematch)

    def _tokenize(self, text):
        tokens = []
        for word in normalization.split_words(text, self._cased):
            tokens += self._word_piece_tokenize(word)
        return tokens

    def _word_piece_tokenize(self, word):
        return split_pieces(word, self._token_dict)

    @staticmethod
    def _truncate(first_tokens, second_tokens=None, max_len=None):
        if max_len is None:
            return
        special = 2 if second_tokens is None else 3
        if max_len < special:
            kind = "one text" if second_tokens is None else "a pair"
            raise ValueError(f"max_len must be at least {special} for {kind}, to hold [CLS] and [SEP]; got {max_len}.")
        if second_tokens is None:
            del first_tokens[max_len - special :]
            return
        while len(first_tokens) + len(second_tokens) > max_len - special:
            (first_tokens if len(first_tokens) > len(second_tokens) else second_tokens).pop()

    def _pack(self, first_tokens, second_tokens=None):
        packed = [self._token_cls, *first_tokens, self._token_sep]
        if second_tokens is None:
            return packed, len(packed), 0
        return [*packed, *second_tokens, self._token_sep], len(packed), len(second_tokens) + 1

    def _convert_tokens_to_ids(self, tokens):
        unknown = self._token_dict.get(self._token_unk)
        ids = [self._token_dict.get(token, unknown) for token in tokens]
        if None in ids:
            raise ValueError(f"the vocabulary must have every token or {self._token_unk}; got {tokens[ids.index(None)]!r}.")
        return ids

    _is_punctuation = staticmethod(normalization.is_punctuation)
    _is_cjk_character = staticmethod(normalization.is_cjk_character)
    _is_space = staticmethod(normalization.is_space)
    _is_control = staticmethod(normalization.is_control)


def _text(name, value):
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text; got {type(value).__name__} {str(value)[:40]!r}.")
    return value
