"""Labels of words as labels of tokens, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

IGNORED = -100


def align_labels(
    word_ids: npt.NDArray[Any] | Sequence[Any], labels: Sequence[Any], ignored: int = IGNORED, label_all_pieces: bool = False
) -> npt.NDArray[np.int32]:
    """Give tokens the labels of their words.

    Args:
        word_ids: index of every token's word `(rows, length)`, -1 at special tokens and padding, as in `Encoding.word_ids`.
        labels: for every row, the labels of its words.
        ignored: the label of tokens without one, for `SparseCategoricalCrossentropy(ignore_class=...)`.
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
        chosen = words >= 0 if label_all_pieces else is_first_piece(words)
        aligned[row, chosen] = np.asarray(values)[words[chosen]]
    return aligned


def is_first_piece(word_ids):
    """Where words begin: True at the first token of every word, `(..., length)` bool."""
    word_ids = np.asarray(word_ids)
    before = np.concatenate([np.full_like(word_ids[..., :1], -1), word_ids[..., :-1]], axis=-1)
    return (word_ids >= 0) & (word_ids != before)
