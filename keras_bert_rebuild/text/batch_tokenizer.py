"""What tokenizers for batches of texts have in common: rows, pairs, cutting, windows, padding."""

import abc
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken

from keras_bert_rebuild.text import encoding as rows_of
from keras_bert_rebuild.text.align_labels import align_labels
from keras_bert_rebuild.text.flat_tokens import concatenate
from keras_bert_rebuild.text.segmented import LiteralTokens, encode_words
from keras_bert_rebuild.text.windows import has_max_context, window_rows

# Characters that go through at once, so that what is computed on the way stays small and near the processor.
SLICE = 1 << 16


class BatchTokenizer(abc.ABC):
    """A tokenizer that encodes many texts at a time.

    A subclass sets the attributes and gives `_encode_texts` and `_join`.
    """

    vocabulary: dict
    """From token to id."""

    tokens: dict
    """From id to token."""

    cls_id: int
    sep_id: int
    pad_id: int
    unk_id: int
    mask_id: int | None

    separators = 1
    """Separators between the texts of a pair."""

    second_segment = 1
    """Segment of the second text of a pair."""

    added_tokens: tuple[str, ...] = ()
    """Tokens that stand for themselves wherever they are written in a text."""

    rules: Mapping[str, AddedToken] = {}
    """How each of them is found, a `tokenizers.AddedToken`."""

    takes_space: tuple[str, ...] = ()
    """Special tokens that take the white space before them when they are written in a text."""

    @property
    def special_ids(self) -> set[int]:
        """Ids of the special tokens, a set."""
        ids = (self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)
        return {i for i in ids if i is not None}

    def __eq__(self, other: object) -> bool:
        """Whether the other one is made of the same, and so gives the same ids."""
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.__reduce__() == other.__reduce__())

    def __hash__(self) -> int:
        return hash((type(self), len(self.vocabulary), *self.added_tokens))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode_batch(
        self,
        texts: Sequence[str | Sequence[str]],
        pairs: Sequence[str | Sequence[str]] | None = None,
        max_len: int | None = None,
        truncation: str = "longest_first",
        pad_to: int | str | Sequence[int] | None = None,
        return_offsets: bool = False,
        is_pretokenized: bool = False,
        special_tokens_in_text: bool = False,
        stride: int | None = None,
    ) -> rows_of.Encoding:
        """Encode texts or pairs of texts.

        Args:
            texts: a list of strings; with `is_pretokenized` a list of lists of words.
            pairs: the second text of every pair, or None.
            max_len: tokens of a row at the most, special ones included; longer ones are cut.
            truncation: `longest_first` (Google's: from the end of the longer one, token by token), `only_first`, `only_second`.
            pad_to: None for lists of arrays, every row of its own length; for arrays `"longest"`, the longest row of the batch, a
                length, or a list of lengths of which the least that holds all rows is taken.
            return_offsets: give `offsets` and `word_ids`, too.
            is_pretokenized: texts are lists of words; `word_ids` then counts these and offsets are inside a word.
            special_tokens_in_text: `[MASK]`, `[SEP]` and the others written in a text are these tokens; else they are text, as is
                right for text by strangers.
            stride: instead of cutting, go over the long text (the first, or with pairs the one that `truncation` names) in windows
                that share so many tokens.

        Returns:
            An `Encoding`.

        Raises:
            ValueError: an argument does not fit, in one sentence.
        """
        frame = rows_of.Frame(self.cls_id, self.sep_id, self.pad_id, self.separators, self.second_segment)
        self._check(texts, pairs, max_len, truncation, stride, frame)
        places = return_offsets or is_pretokenized
        sides = [self._encode(side, places, is_pretokenized, special_tokens_in_text) for side in (texts, pairs) if side is not None]
        lengths = np.stack([side.lengths for side in sides], axis=1)
        room = None if max_len is None else max_len - frame.size(len(sides))
        side = 1 if pairs is not None and truncation == "only_second" else 0
        max_context = None
        if stride is None:
            rows = rows_of.whole_rows(lengths, room, truncation)
        else:
            left = np.full(len(lengths), room) if pairs is None else rows_of.remaining_room(lengths, room, side)
            rows = window_rows(lengths, left, side, stride)
            max_context = (side, has_max_context(rows, side))
        encoding = rows_of.assemble(sides, rows, frame, pad_to, max_context)
        return rows_of.without_padding(encoding) if pad_to is None else encoding

    def encode_flat(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The ids of texts without special tokens, one text behind the other.

        Returns:
            Ids `(tokens,)`, int32, and how many every text has `(texts,)`, int64.
        """
        flat = self._encode(text_list("texts", texts), False, False, False)
        return flat.ids, flat.lengths

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, without special ones, as strings."""
        return [self.tokens[i] for i in self.encode_flat([text])[0].tolist()]

    align_labels = staticmethod(align_labels)

    def decode(self, ids: Sequence[int] | npt.NDArray[Any], skip_special_tokens: bool = True) -> str:
        """A text for ids.

        Args:
            ids: ids of one row.
            skip_special_tokens: leave out `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]` and `[UNK]`, whatever this vocabulary calls them.

        Raises:
            ValueError: an id is not in the vocabulary, or the ids are not those of one row.
        """
        if np.ndim(ids) != 1:
            raise ValueError(f"ids must be those of one row; got an array of shape {np.shape(ids)}.")
        ids = np.asarray(ids).tolist()
        unknown = next((i for i in ids if i not in self.tokens), None)
        if unknown is not None:
            raise ValueError(f"ids must be in the vocabulary of {len(self)} tokens; got {unknown}.")
        special = self.special_ids
        return self._join([i for i in ids if not (skip_special_tokens and i in special)])

    @abc.abstractmethod
    def _encode_texts(self, texts, places, are_words):
        """The `FlatTokens` of strings in which no token stands for itself.

        Args:
            texts: a list of strings.
            places: give starts, stops and words.
            are_words: every string is a word of a text.
        """

    @abc.abstractmethod
    def _join(self, ids):
        """The text of ids that are known."""

    def _encode(self, texts, places, is_pretokenized, special_tokens_in_text, are_words=False):
        if is_pretokenized:
            return encode_words(texts, lambda words: self._encode(words, places, False, special_tokens_in_text, True))
        texts = strings("texts", texts)
        return concatenate(self._encode_written(part, places, are_words, bool(special_tokens_in_text)) for part in slices(texts))

    def _encode_written(self, texts, places, are_words, special_tokens_in_text):
        """The `FlatTokens` of strings in which tokens stand for themselves."""
        encode = lambda plain: self._encode_texts(plain, places, are_words)  # noqa: E731
        if not (self.added_tokens or special_tokens_in_text):
            return encode(texts)
        known = self.__dict__.setdefault("_literals", {})
        if special_tokens_in_text not in known:
            known[special_tokens_in_text] = self._literal_tokens(special_tokens_in_text)
        return known[special_tokens_in_text].encode(texts, encode)

    def _literal_tokens(self, with_special):
        rules = dict(self.rules)
        for content in [self.tokens[i] for i in sorted(self.special_ids)] if with_special else ():
            if content:
                space = content in self.takes_space
                rules.setdefault(content, AddedToken(content, lstrip=space, special=True, normalized=False))
        return LiteralTokens(list(rules.values()), self.vocabulary, self._normalizer())

    def _normalizer(self):
        """What becomes of a text before `normalized` tokens are looked for in it, of `tokenizers.normalizers`; None: nothing."""
        return

    def _check(self, texts, pairs, max_len, truncation, stride, frame):
        text_list("texts", texts)
        if pairs is not None and len(text_list("pairs", pairs)) != len(texts):
            raise ValueError(f"pairs must have a text for each of the {len(texts)} texts; got {len(pairs)}.")
        special = frame.size(1 if pairs is None else 2)
        if max_len is not None and max_len < special:
            kind = "one text" if pairs is None else "a pair"
            held = f"{self.tokens[self.cls_id]} and {self.tokens[self.sep_id]}"
            raise ValueError(f"max_len must be at least {special} for {kind}, to hold {held}; got {max_len}.")
        if truncation not in rows_of.TRUNCATIONS or (pairs is None and truncation == "only_second"):
            raise ValueError(f"truncation must be {' or '.join(rows_of.TRUNCATIONS)}, the last with pairs; got {truncation!r}.")
        if stride is not None and (max_len is None or stride < 0 or (pairs is not None and truncation == "longest_first")):
            raise ValueError(
                "stride must be 0 or more tokens and needs max_len, and with pairs a truncation that names the text to cut into "
                f"windows; got stride {stride}, max_len {max_len}, truncation {truncation!r}."
            )


def slices(texts):
    """Texts in parts of some `SLICE` characters; one part at least."""
    behind = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)) + 1)
    cuts = np.flatnonzero(np.diff(behind // SLICE)) + 1
    for begin, end in itertools.pairwise([0, *cuts.tolist(), len(texts)]):
        yield texts[begin:end]


def text_list(name, value):
    """A value that is a list of texts, not one text; else a ValueError."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise ValueError(f"{name} must be a list of texts; got {type(value).__name__} {str(value)[:40]!r}.")
    return value


def strings(name, values):
    """Values that are strings, as a list; else a ValueError."""
    values = list(text_list(name, values))
    wrong = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise ValueError(f"{name} must be strings; number {wrong} is {type(values[wrong]).__name__} {str(values[wrong])[:40]!r}.")
    return values


def check_unicode(texts):
    """Refuse texts that have no UTF-8 form, in a sentence."""
    for text in texts:
        if not text.isascii():
            place = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
            if place is not None:
                raise ValueError(f"texts must be Unicode; got half of a pair, {text[place]!a}, at character {place} of a text.")
