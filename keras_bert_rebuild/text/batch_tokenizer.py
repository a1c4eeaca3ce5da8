"""The base class of tokenizers for batches: rows, pairs, truncation, windows, padding."""

import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken

from keras_bert_rebuild.text import encoding as rows_of
from keras_bert_rebuild.text.encoding import has_max_context, window_rows
from keras_bert_rebuild.text.flat_tokens import concatenate
from keras_bert_rebuild.text.segmented import LiteralTokens, align_labels, encode_words, slices, strings, text_list


class BatchTokenizer(abc.ABC):
    """A tokenizer that encodes many texts at a time.

    A subclass sets the attributes and implements `_encode_texts` and `_join`.
    """

    vocabulary: dict
    """Token to id."""

    tokens: dict
    """Id to token."""

    cls_id: int
    sep_id: int
    pad_id: int
    unk_id: int
    mask_id: int | None

    separators = 1
    """Number of separators between the texts of a pair."""

    second_segment = 1
    """Segment of the second text of a pair; 0 if all segments are 0."""

    truncation_side = "right"
    """The end at which a text that is too long is cut, "right" or "left"."""

    cls_last = False
    """Whether rows are `A <sep> B <sep> <cls>`, padded on the left, instead of `[CLS] A [SEP] B [SEP]`."""

    added_tokens: tuple[str, ...] = ()
    """Tokens that are matched verbatim in a text."""

    rules: Mapping[str, AddedToken] = {}
    """How each added token is matched, a `tokenizers.AddedToken`."""

    takes_space: tuple[str, ...] = ()
    """Special tokens that absorb white space before them when written in a text."""

    @property
    def special_ids(self) -> set[int]:
        """The ids of the special tokens."""
        ids = (self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)
        return {i for i in ids if i is not None}

    def __eq__(self, other: object) -> bool:
        """Whether both tokenizers have the same arguments, and so give the same ids."""
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.__reduce__() == other.__reduce__())

    def __hash__(self) -> int:
        return hash((type(self), len(self.vocabulary), *self.added_tokens))

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __reduce__(self):
        arguments = self._arguments()
        return super().__reduce__() if arguments is None else (_made, (type(self), arguments))

    def _arguments(self):
        """The arguments of the constructor by name, for copies; None for a class that is copied by its attributes."""
        return

    def with_options(self, **options: Any) -> Self:
        """A copy with some arguments of the constructor changed, such as `second_segment=0` or `truncation_side="left"`."""
        arguments = self._arguments()
        if arguments is not None:
            return type(self)(**{**arguments, **options})
        made = copy.copy(self)
        vars(made).update(options)
        return made

    def _set_rows(self, second_segment, truncation_side):
        """Set what rows have besides their tokens; a ValueError if it is invalid."""
        if second_segment not in (0, 1):
            raise ValueError(f"second_segment must be 0 or 1; got {second_segment!r}.")
        if truncation_side not in rows_of.SIDES:
            raise ValueError(f"truncation_side must be {' or '.join(rows_of.SIDES)}; got {truncation_side!r}.")
        self.second_segment, self.truncation_side = int(second_segment), truncation_side

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
            max_len: maximum number of tokens in a row, special ones included; longer rows are truncated, at the end of a text or,
                if `truncation_side` is "left", at its beginning.
            truncation: `longest_first` (as Google does: token by token, from the longer text), `only_first`,
                `only_second`, or `halves` (as tokenizers does: if both are truncated, an odd token goes to the longer one).
            pad_to: None for lists of arrays, each row with its own length; for padded arrays, `"longest"` for the longest row of
                the batch, a length, or a list of lengths, of which the smallest that fits all rows is used.
            return_offsets: also return `offsets` and `word_ids`.
            is_pretokenized: texts are lists of words; `word_ids` count these, and offsets are relative to a word.
            special_tokens_in_text: recognise written `[MASK]`, `[SEP]` and so on as these tokens; by default they are text, which
                is safe for untrusted texts.
            stride: instead of truncating, split the long text (the first, or for pairs the one that `truncation` names) into
                windows that share this many tokens; the last one, or with `truncation_side` "left" the first, may be shorter.

        Returns:
            An `Encoding`.

        Raises:
            ValueError: an argument is invalid.
        """
        frame = self._frame()
        self._check(texts, pairs, max_len, truncation, stride, frame)
        with_offsets = return_offsets or is_pretokenized
        sides = [
            self._encode(side, with_offsets, is_pretokenized, special_tokens_in_text) for side in (texts, pairs) if side is not None
        ]
        rows, split = self._rows(sides, frame, max_len, truncation, stride)
        max_context = None if stride is None else (split, has_max_context(rows, split))
        encoding = rows_of.assemble(sides, rows, frame, pad_to, max_context)
        return rows_of.without_padding(encoding) if pad_to is None else encoding

    def encode_rows(self, texts: Sequence[str], max_len: int | None = None, stride: int | None = None) -> rows_of.Encoding:
        """Encode texts as `encode_batch` without padding does, but into arrays: faster, since there is no object for each row.

        Args:
            texts, max_len, stride: as for `encode_batch`.

        Returns:
            An `Encoding` padded to the longest row; every row begins in the first column, also if `cls_last`.
        """
        frame = self._frame()
        self._check(texts, None, max_len, "longest_first", stride, frame)
        sides = [self._encode(texts, False, False, False)]
        return rows_of.assemble(sides, self._rows(sides, frame, max_len, "longest_first", stride)[0], frame, None)

    def encode_flat(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The ids of texts without special tokens, concatenated.

        Returns:
            Ids `(tokens,)`, int32, and the number of ids of every text `(texts,)`, int64.
        """
        flat = self._encode(text_list("texts", texts), False, False, False)
        return flat.ids, flat.lengths

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, without special ones, as strings."""
        return [self.tokens[i] for i in self.encode_flat([text])[0].tolist()]

    align_labels = staticmethod(align_labels)

    def decode(self, ids: Sequence[int] | npt.NDArray[Any], skip_special_tokens: bool = True) -> str:
        """The text for ids.

        Args:
            ids: ids of one row.
            skip_special_tokens: leave out `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]` and `[UNK]`, or their names in this vocabulary.

        Raises:
            ValueError: an id is not in the vocabulary, or `ids` has several rows.
        """
        if np.ndim(ids) != 1:
            raise ValueError(f"ids must be a single row; got an array of shape {np.shape(ids)}.")
        ids = np.asarray(ids).tolist()
        unknown = next((i for i in ids if i not in self.tokens), None)
        if unknown is not None:
            raise ValueError(f"ids must be in the vocabulary of {len(self)} tokens; got {unknown}.")
        special = self.special_ids
        return self._join([i for i in ids if not (skip_special_tokens and i in special)])

    @abc.abstractmethod
    def _encode_texts(self, texts, with_offsets, are_words):
        """The `FlatTokens` of strings without added tokens.

        Args:
            texts: a list of strings.
            with_offsets: also return starts, stops and words.
            are_words: every string is a word of a text.
        """

    @abc.abstractmethod
    def _join(self, ids):
        """The text for known ids."""

    def _frame(self):
        return rows_of.Frame(self.cls_id, self.sep_id, self.pad_id, self.separators, self.second_segment, self.cls_last)

    def _rows(self, sides, frame, max_len, truncation, stride):
        """Which tokens of the texts every row has, a `Rows`, and the text that a stride splits into windows, 0 or 1."""
        lengths = np.stack([side.lengths for side in sides], axis=1)
        room = None if max_len is None else max_len - frame.size(len(sides))
        split = 1 if len(sides) == 2 and truncation == "only_second" else 0
        if stride is None:
            return rows_of.whole_rows(lengths, room, truncation, self.truncation_side), split
        left = np.full(len(lengths), room) if len(sides) == 1 else rows_of.remaining_room(lengths, room, split)
        return window_rows(lengths, left, split, stride, self.truncation_side), split

    def _encode(self, texts, with_offsets, is_pretokenized, special_tokens_in_text, are_words=False):
        if is_pretokenized:
            return encode_words(texts, lambda words: self._encode(words, with_offsets, False, special_tokens_in_text, True))
        texts = strings("texts", texts)
        return concatenate(
            self._encode_written(part, with_offsets, are_words, bool(special_tokens_in_text)) for part in slices(texts)
        )

    def _encode_written(self, texts, with_offsets, are_words, special_tokens_in_text):
        """The `FlatTokens` of strings that may contain added tokens."""
        encode = lambda plain: self._encode_texts(plain, with_offsets, are_words)  # noqa: E731
        if not (self.added_tokens or special_tokens_in_text):
            return encode(texts)
        literals = self.__dict__.setdefault("_literals", {})
        if special_tokens_in_text not in literals:
            literals[special_tokens_in_text] = self._literal_tokens(special_tokens_in_text)
        return literals[special_tokens_in_text].encode(texts, encode)

    def _literal_tokens(self, with_special):
        rules = dict(self.rules)
        for content in [self.tokens[i] for i in sorted(self.special_ids)] if with_special else ():
            if content:
                space = content in self.takes_space
                rules.setdefault(content, AddedToken(content, lstrip=space, special=True, normalized=False))
        return LiteralTokens(list(rules.values()), self.vocabulary, self._normalizer())

    def _normalizer(self):
        """The normalizer applied before matching `normalized` tokens, one of `tokenizers.normalizers`; None for none."""
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
        if truncation not in rows_of.TRUNCATIONS or (pairs is None and truncation in ("only_second", "halves")):
            raise ValueError(f"truncation must be {' or '.join(rows_of.TRUNCATIONS)}, the last two with pairs; got {truncation!r}.")
        if stride is not None and (
            max_len is None or stride < 0 or (pairs is not None and truncation in ("longest_first", "halves"))
        ):
            raise ValueError(
                "stride must be 0 or more tokens and needs max_len, and with pairs a truncation that names the text to split into "
                f"windows; got stride {stride}, max_len {max_len}, truncation {truncation!r}."
            )


def _made(kind, arguments):
    """A tokenizer from the values of `__reduce__`."""
    return kind(**arguments)
