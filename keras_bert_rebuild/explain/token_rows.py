"""Texts as the input rows of a model, with their tokens, words and texts."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.data.batches import padded
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer
from keras_bert_rebuild.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenRows:
    """The token ids of a batch and what they represent; None for what is unknown."""

    ids: np.ndarray
    """Token ids `(batch, length)`, int32."""

    segments: np.ndarray
    """Segment ids `(batch, length)`, int32; 0 at padding."""

    mask: np.ndarray
    """False at padding, `(batch, length)`."""

    sentences: np.ndarray
    """0 at tokens of the first text, 1 at those of the second, -1 at special tokens and padding, `(batch, length)`."""

    words: np.ndarray | None = None
    """Index of the token's word in its own text; -1 at special tokens and padding, `(batch, length)`."""

    tokens: tuple | None = None
    """The tokens of every row as the vocabulary writes them, a tuple of tuples of strings."""

    surfaces: tuple | None = None
    """The characters of every token in the text, "" at special tokens and padding."""

    offsets: np.ndarray | None = None
    """Offsets of these characters in their own text, `(batch, length, 2)`; zeros at special tokens and padding."""

    def inputs(self) -> dict[str, np.ndarray]:
        """The inputs of a model that texts determine, by name."""
        return {"Input-Token": self.ids, "Input-Segment": self.segments, "Input-Mask": self.mask.astype("int32")}


def rows_of_texts(tokenizer, texts, pairs=None, max_len=None, length=None, longest=None, **options):
    """Encode texts or pairs of texts.

    Args:
        tokenizer: a `WordPieceTokenizer`, `ByteLevelBPETokenizer`, `SentencePieceTokenizer` or keras_bert's `Tokenizer`.
        texts: a list of strings.
        pairs: the second text of each, or None.
        max_len: truncate rows to this many tokens, special ones included; None to truncate nothing.
        length: length of the rows; None for that of the longest.
        longest: maximum number of tokens of the model; None for no limit.
        **options: of `encode_batch`, for the tokenizers that have it, such as `truncation`.

    Returns:
        `TokenRows`.

    Raises:
        ValueError: texts are not a list of strings, the tokenizer is of another kind, or a row is too long for the model.
    """
    if isinstance(texts, (str, bytes)) or not len(texts) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts must be a list of one or more strings; got {texts!r:.80}.")
    if pairs is not None and (isinstance(pairs, (str, bytes)) or len(pairs) != len(texts)):
        raise ValueError(f"pairs must be a list with a text for each of the {len(texts)} texts; got {pairs!r:.80}.")
    _check_tokenizer(tokenizer)
    make = _of_batch_tokenizer if isinstance(tokenizer, BatchTokenizer) else _of_tokenizer

    def width(rows):
        lengths = [len(ids) for ids in rows]
        if longest is not None and max(lengths) > longest:
            row = int(np.argmax(lengths))
            raise ValueError(
                f"a text may have {longest} tokens, the maximum of the model; text {row} has {lengths[row]}: pass max_len to cut."
            )
        return max(length or 0, *lengths)

    return make(tokenizer, list(texts), None if pairs is None else list(pairs), max_len, width, **options)


def rows_of_ids(ids, segments, mask, tokenizer=None):
    """Name the tokens of ids given by the user.

    Without a tokenizer, special tokens are unknown; sentences are then the segments.

    Args:
        ids, segments, mask: see `TokenRows`.
        tokenizer: see `rows_of_texts`; None if unknown.

    Returns:
        `TokenRows`, without words and surfaces.

    Raises:
        ValueError: the tokenizer is of another kind.
    """
    if tokenizer is None:
        return TokenRows(ids, segments, mask, np.where(mask, segments, -1))
    names = {i: token for token, i in vocabulary_of(tokenizer).items()}
    if isinstance(tokenizer, BatchTokenizer):
        cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    else:
        cls_id, sep_id = tokenizer.encode("")[0]
    sentences = _sentences(ids == sep_id, np.isin(ids, [cls_id, sep_id]) | ~mask)
    return TokenRows(ids, segments, mask, sentences, tokens=_names(names, ids, mask))


def vocabulary_of(tokenizer):
    """Token to id, for any tokenizer of this library.

    Raises:
        ValueError: the tokenizer is not one of this library.
    """
    _check_tokenizer(tokenizer)
    return tokenizer.vocabulary if isinstance(tokenizer, BatchTokenizer) else tokenizer._token_dict


def _of_batch_tokenizer(tokenizer, texts, pairs, max_len, width, **options):
    encoding = tokenizer.encode_batch(texts, pairs, max_len=max_len, return_offsets=True, **options)
    length = width(encoding.ids)
    ids, segments, mask = _arrays(encoding.ids, encoding.segments, length, tokenizer.pad_id)
    words = padded(encoding.word_ids, length, -1)
    special = words < 0
    sentences = _sentences((ids == tokenizer.sep_id) & special, special)
    sides = (texts, pairs)
    offsets = np.where((sentences < 0)[..., None], 0, padded(encoding.offsets, length))
    surfaces = tuple(
        tuple("" if side < 0 else sides[side][row][begin:end] for side, (begin, end) in zip(sentences[row], places, strict=True))
        for row, places in enumerate(offsets.tolist())
    )
    return TokenRows(ids, segments, mask, sentences, words, _names(tokenizer.tokens, ids, mask), surfaces, offsets)


def _of_tokenizer(tokenizer, texts, pairs, max_len, width):
    """Rows from keras_bert's `Tokenizer`, which does not return characters of the text."""
    cls, sep = tokenizer.tokenize("")
    cls_id, sep_id, pad_id = tokenizer.encode("", max_len=3)[0]
    rows = []
    for first, second in zip(texts, pairs or [None] * len(texts), strict=True):
        ids, segments = tokenizer.encode(first, second)
        if max_len is not None and len(ids) > max_len:
            ids, segments = tokenizer.encode(first, second, max_len)
        sides = tokenizer.decode(ids)
        sides = sides if isinstance(sides, tuple) else (sides,)
        tokens = [cls, *(token for side in sides for token in (*side, sep))]
        words = [-1, *(n for side in sides for n in (*np.cumsum([t[:2] != "##" for t in side], dtype=int) - 1, -1))]
        rows.append((ids, segments, words, tokens))
    ids, segments, words, tokens = zip(*rows, strict=True)
    length = width(ids)
    ids, segments, mask = _arrays(ids, segments, length, pad_id)
    special = np.isin(ids, [cls_id, sep_id]) | ~mask
    tokens = tuple((*row, *[""] * (length - len(row))) for row in tokens)
    sentences = _sentences((ids == sep_id) & mask, special)
    return TokenRows(ids, segments, mask, sentences, padded(words, length, -1), tokens)


def _arrays(ids, segments, length, pad_id):
    """Ids, segments and mask of rows, padded to a common length."""
    mask = np.arange(length) < np.array([[len(row)] for row in ids])
    return padded(ids, length, pad_id), padded(segments, length), mask


def _check_tokenizer(tokenizer):
    if not isinstance(tokenizer, (BatchTokenizer, Tokenizer)):
        raise ValueError(f"tokenizer must be one of this library, as from load_tokenizer; got {type(tokenizer).__name__}.")


def _sentences(separators, special):
    return np.where(special, -1, (np.cumsum(separators, axis=1) > 0).astype(int))


def _names(names, ids, mask):
    """The tokens of ids; "" at padding, "?" for unknown ids."""
    return tuple(
        tuple(names.get(i, "?") if real else "" for i, real in zip(row, mask_row, strict=True))
        for row, mask_row in zip(ids.tolist(), mask, strict=True)
    )
