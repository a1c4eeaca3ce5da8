"""Offsets and words, in the user's texts, of the tokens in the rows of a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_bert_rebuild.tasks.words_of_tokens import words_of_text


@dataclass(frozen=True)
class LocatedTokens:
    """The tokens in the rows of a model, and the words of the texts that they belong to."""

    texts: tuple[str, ...]
    """The user's texts."""

    ids: tuple[np.ndarray, ...]
    """For every row the ids of its tokens, `(length,)`."""

    owners: tuple[np.ndarray, ...]
    """For every token the index of its text; -1 for special tokens and others outside the texts."""

    spans: tuple[np.ndarray, ...]
    """For every token the offsets of its first character and of the one after its last, in its text, `(length, 2)`."""

    words: tuple[np.ndarray, ...]
    """For every token the index of its word among those of all texts; -1 for tokens that no method replaces."""

    word_spans: tuple[tuple[int, int, int], ...]
    """For every word the index of its text, and the offsets of its first character and of the one after its last."""


def located_tokens(
    windows: Any,
    owners: Sequence[Sequence[int]],
    texts: Sequence[str],
    before: Sequence[int] | None = None,
    fixed: Sequence[int] = (),
) -> LocatedTokens:
    """Find the words of texts in the rows of a task.

    Args:
        windows: `Windows`.
        owners: for every row the indices of its first and, if there is one, of its second text.
        texts: the user's texts.
        before: for every text the number of characters that the task put before it, such as a prompt; None for none.
        fixed: ids of tokens that no method replaces, such as the mask to fill.

    Example:

    >>> from keras_bert_rebuild import WordPieceTokenizer
    >>> from keras_bert_rebuild.tasks.text_rows import encode_windows
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##like", "cats", "!"])
    >>> windows = encode_windows(tokenizer, ["Cats: UNLIKE!"], max_len=16, stride=0)
    >>> found = located_tokens(windows, [(0,)], ["Cats: UNLIKE!"])
    >>> [found.texts[text][start:end] for text, start, end in found.word_spans]
    ['Cats', ':', 'UNLIKE', '!']
    """
    shifts = [0] * len(texts) if before is None else before
    of_token = [np.full(len(ids), -1, "int64") for ids in windows.ids]
    words = [np.full(len(ids), -1, "int64") for ids in windows.ids]
    spans = [np.zeros((len(ids), 2), "int64") for ids in windows.ids]
    word_spans: list[tuple[int, int, int]] = []
    for number, text in enumerate(texts):
        # A text has several rows if it is long, or if it is compared with several others.
        own = [(row, side) for row, sides in enumerate(owners) for side, owner in enumerate(sides) if owner == number]
        offsets, numbers = [], []
        for row, side in own:
            shifted = np.asarray(windows.offsets[row], "int64") - shifts[number]
            inside = (np.asarray(windows.sides[row]) == side) & (shifted[:, 1] > 0)
            offsets.append(np.maximum(shifted, 0))
            numbers.append(np.where(inside & (np.asarray(windows.word_ids[row]) >= 0), windows.word_ids[row], -1))
            of_token[row][inside], spans[row][inside] = number, offsets[-1][inside]
        found, bounds = words_of_text(SimpleNamespace(offsets=offsets, word_ids=numbers), range(len(own)), text)
        for (row, _), of_row in zip(own, found, strict=True):
            words[row] = np.where((of_row >= 0) & ~np.isin(windows.ids[row], fixed), of_row + len(word_spans), words[row])
        word_spans += [(number, int(start), int(end)) for start, end in bounds]
    return LocatedTokens(
        tuple(texts), tuple(np.asarray(ids) for ids in windows.ids), tuple(of_token), tuple(spans), tuple(words), tuple(word_spans)
    )
