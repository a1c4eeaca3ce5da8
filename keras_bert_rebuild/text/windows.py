"""Long texts as overlapping windows."""

import itertools

import numpy as np

from keras_bert_rebuild.text.encoding import Rows


def window_rows(lengths, room, side, stride):
    """Rows that together show all of one text, in as many windows as needed.

    Args:
        lengths: tokens of every text `(texts, 1)` or pair `(pairs, 2)`.
        room: tokens in a window of each text `(texts,)`.
        side: the text that is split into windows, 0 or 1; every row contains all of the other one.
        stride: tokens that a window shares with the next.

    Returns:
        A `Rows`; the windows of a text are consecutive.

    Raises:
        ValueError: the stride leaves no room to advance.
    """
    long = lengths[:, side] > room
    if (long & (room <= stride)).any():
        i = int((long & (room <= stride)).argmax())
        raise ValueError(f"stride must be less than the {room[i]} tokens that a window of text {i} has room for; got {stride}.")
    step = np.maximum(room - stride, 1)
    windows = np.where(long, -(-(lengths[:, side] - room) // step) + 1, 1)
    texts = np.repeat(np.arange(len(lengths)), windows)
    number = np.arange(len(texts)) - np.repeat(np.cumsum(windows) - windows, windows)
    first = np.zeros((len(texts), lengths.shape[1]), np.int64)
    first[:, side] = number * step[texts]
    counts = lengths[texts].copy()
    counts[:, side] = np.minimum(room[texts], lengths[texts, side] - first[:, side])
    return Rows(texts, first, counts)


def has_max_context(rows, side):
    """For every token of every window, whether no other window shows more context around it.

    The context of a token in a window is the smaller number of the tokens before and after it, plus a hundredth of the window's
    length.

    Returns:
        A list of bool arrays, one for each row.

    Reference: `_check_is_max_context` in `run_squad.py` of google-research/bert.
    """
    first, counts = rows.first[:, side], rows.counts[:, side]
    best = []
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(rows.texts)) + 1, [len(first)]])
    for low, high in itertools.pairwise(bounds.tolist()):
        length = (first[low:high] + counts[low:high]).max(initial=0)
        maximum, winner = np.full(length, -1.0), np.full(length, -1)
        # Each window is compared only within its own span: comparing over the whole text would be quadratic in its length.
        for row in range(low, high):
            span, before = slice(first[row], first[row] + counts[row]), np.arange(counts[row])
            context = np.minimum(before, before[::-1]) + 0.01 * counts[row]
            more = context > maximum[span]
            maximum[span][more], winner[span][more] = context[more], row
        best += [winner[first[row] : first[row] + counts[row]] == row for row in range(low, high)]
    return best
