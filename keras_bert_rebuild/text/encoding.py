"""Token ids as model inputs: truncated or in overlapping windows, with special tokens, padded."""

import itertools
from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.text.flat_tokens import ragged_range

# The segment of a class token after the texts.
CLS_SEGMENT = 2

# The end at which a text that is too long is cut.
SIDES = ("right", "left")

# Which text of a pair is truncated: the longer one, token by token; a given one; or halves, where an odd token goes to the longer.
TRUNCATIONS = ("longest_first", "only_first", "only_second", "halves")


@dataclass
class Encoding:
    """A batch of texts or pairs. Without padding, every field except `texts` is a list with an array per row."""

    ids: np.ndarray
    """Token ids `(rows, length)`, int32."""

    segments: np.ndarray
    """0 for the first text and padding, 1 for the second, 2 for a class token at the end, `(rows, length)`; all 0 for RoBERTa and
    for a tokenizer that makes no segments."""

    mask: np.ndarray
    """1 at tokens, 0 at padding, `(rows, length)`."""

    texts: np.ndarray
    """The index of each row's text or pair, `(rows,)`; with windows, a text has several rows."""

    offsets: np.ndarray | None = None
    """Start and end (exclusive) of a token in characters of its own text, `(rows, length, 2)`; (0, 0) at special tokens and
    padding."""

    word_ids: np.ndarray | None = None
    """Index of a token's word in its own text, from 0, `(rows, length)`; -1 at special tokens and padding."""

    positions: np.ndarray | None = None
    """With windows: index of a token in its own text `(rows, length)`; -1 at special tokens and padding."""

    max_context: np.ndarray | None = None
    """With windows: whether this window shows the maximum context of this token of the split text, `(rows, length)`."""

    @property
    def inputs(self) -> list[np.ndarray]:
        """The inputs of the model: `[ids, segments]`."""
        return [self.ids, self.segments]


@dataclass(frozen=True)
class Frame:
    """The special tokens around the texts of a row: `[CLS] A [SEP]`, `[CLS] A [SEP] B [SEP]`, or `A <sep> B <sep> <cls>`."""

    cls_id: int
    sep_id: int
    pad_id: int

    separators: int = 1
    """Number of separators between the texts of a pair."""

    second_segment: int = 1
    """Segment of the second text and the separator after it; 0 if all segments are 0."""

    cls_last: bool = False
    """Whether the class token is last, in segment 2, and padding on the left."""

    def size(self, sides):
        """The number of special tokens in a row of `sides` texts."""
        return 1 + sides + (sides - 1) * (self.separators - 1)


@dataclass(frozen=True)
class Rows:
    """Which tokens every row has: for each of its one or two texts, the index of the first token and the number of tokens."""

    texts: np.ndarray
    """Index of the text or pair `(rows,)`."""

    first: np.ndarray
    """Index of the first token in the text, `(rows, sides)`."""

    counts: np.ndarray
    """Number of tokens, `(rows, sides)`."""


def whole_rows(lengths, room, truncation, side="right"):
    """A row for every text or pair, truncated to the available room.

    Args:
        lengths: tokens of every text `(texts, 1)`, or of both texts of every pair `(pairs, 2)`.
        room: maximum number of tokens of a row without special ones, or None.
        truncation: `longest_first` truncates the longer text, the second if both are equally long; `only_first` and `only_second`
            truncate that text. `halves` is like `longest_first`, but if both are truncated, an odd token goes to the longer one,
            the second if both are equally long.
        side: the end at which texts are cut, one of `SIDES`.

    Raises:
        ValueError: the text that must not be truncated leaves no room for the other.
    """
    counts = lengths
    if room is not None:
        if lengths.shape[1] == 1:
            counts = np.minimum(lengths, room)
        elif truncation in ("longest_first", "halves"):
            odd = (truncation == "halves") & (lengths[:, 1] >= lengths[:, 0]) & (room % 2)
            second = np.minimum(lengths[:, 1], np.maximum(room // 2 + odd, room - lengths[:, 0]))
            counts = np.stack([np.minimum(lengths[:, 0], room - second), second], axis=1)
        else:
            cut = TRUNCATIONS.index(truncation) - 1
            rest = remaining_room(lengths, room, cut)
            counts = lengths.copy()
            counts[:, cut] = np.minimum(lengths[:, cut], rest)
    return Rows(np.arange(len(lengths)), lengths - counts if side == "left" else np.zeros_like(lengths), counts)


def remaining_room(lengths, room, side):
    """The room that one text of a pair leaves for the other, `side`, `(pairs,)`."""
    rest = room - lengths[:, 1 - side]
    short = (rest < 1) & (lengths.sum(1) > room)
    if short.any():
        i = int(short.argmax())
        raise ValueError(
            f"truncation {TRUNCATIONS[1 + side]!r} must leave room for a token of that text; the other text of pair {i} has "
            f"{lengths[i, 1 - side]} tokens, and max_len leaves {room}."
        )
    return rest


def assemble(sides, rows, frame, pad_to, max_context=None):
    """Rows of ids, with special tokens around the texts.

    Args:
        sides: `FlatTokens` of the texts and, for pairs, of the second texts.
        rows: a `Rows`.
        frame: a `Frame`.
        pad_to: None, `"longest"`, a length, or a list of lengths, of which the smallest that fits every row is used.
        max_context: with windows, the side that is split and its `has_max_context`; the encoding then also has positions.

    Returns:
        An `Encoding`, with offsets and words if the tokens have them.
    """
    totals = rows.counts.sum(1) + frame.size(len(sides))
    width = _width(totals, pad_to)
    shape = (len(totals), width)
    columns = np.arange(width, dtype=np.int32)
    begin = width - totals if frame.cls_last and pad_to is not None else np.zeros_like(totals)
    mask = (columns >= begin[:, None]) & (columns < (begin + totals)[:, None])
    encoding = Encoding(np.full(shape, frame.pad_id, np.int32), np.zeros(shape, np.int32), mask.astype(np.int32), rows.texts)
    if sides[0].starts is not None:
        encoding.offsets, encoding.word_ids = np.zeros((*shape, 2), np.int32), np.full(shape, -1, np.int32)
    if max_context is not None:
        encoding.positions, encoding.max_context = np.full(shape, -1, np.int32), np.zeros(shape, bool)
    first = np.arange(len(totals)) * width
    cls = begin + totals - 1 if frame.cls_last else begin
    encoding.ids.ravel()[first + cls] = frame.cls_id
    start = begin + (0 if frame.cls_last else 1)
    for side, flat in enumerate(sides):
        counts = rows.counts[:, side]
        # Indices into the flattened array of all rows: cheaper than a mask over every position.
        indices = ragged_range(first + start, counts)
        source = _source(flat, rows, side)
        encoding.ids.ravel()[indices] = flat.ids[source]
        if encoding.offsets is not None:
            offsets = encoding.offsets.reshape(-1, 2)
            offsets[indices, 0], offsets[indices, 1] = flat.starts[source], flat.stops[source]
            encoding.word_ids.ravel()[indices] = flat.words[source]
        if max_context is not None:
            encoding.positions.ravel()[indices] = ragged_range(rows.first[:, side], counts)
            if side == max_context[0] and max_context[1]:
                encoding.max_context.ravel()[indices] = np.concatenate(max_context[1])
        separators = frame.separators if side < len(sides) - 1 else 1
        for column in range(separators):
            encoding.ids.ravel()[first + start + counts + column] = frame.sep_id
        if side:
            encoding.segments[(columns >= start[:, None]) & mask] = frame.second_segment
        start = start + counts + separators
    if frame.cls_last and frame.second_segment:
        encoding.segments.ravel()[first + cls] = CLS_SEGMENT
    return encoding


def _source(flat, rows, side):
    """The indices, among the tokens of all texts, of the tokens of all rows."""
    if len(rows.texts) == len(flat.lengths) and np.array_equal(rows.counts[:, side], flat.lengths):
        return slice(None)
    return ragged_range(flat.first[rows.texts] + rows.first[:, side], rows.counts[:, side])


def without_padding(encoding):
    """The encoding with a list of arrays per field, each row with its own length."""
    lengths = encoding.mask.sum(1).tolist()
    for name, value in vars(encoding).items():
        if name != "texts" and value is not None:
            setattr(encoding, name, [row[:length] for row, length in zip(value, lengths, strict=True)])
    return encoding


def _width(totals, pad_to):
    longest = int(totals.max(initial=0))
    if pad_to is None or (isinstance(pad_to, str) and pad_to == "longest"):
        return longest
    if isinstance(pad_to, str):
        raise ValueError(f"pad_to must be 'longest', a length or a list of lengths; got {pad_to!r}.")
    fitting = [length for length in np.atleast_1d(pad_to).tolist() if length >= longest]
    if not fitting:
        raise ValueError(f"pad_to must fit the longest row of {longest} tokens; got {pad_to}: set max_len to truncate it.")
    return min(fitting)


def window_rows(lengths, room, side, stride, cut="right"):
    """Rows that together cover one text, in as many windows as needed.

    Args:
        lengths: tokens of every text `(texts, 1)` or pair `(pairs, 2)`.
        room: maximum number of tokens in a window of each text, `(texts,)`.
        side: the text that is split into windows, 0 or 1; every row has the whole other text.
        stride: number of tokens that consecutive windows share.
        cut: one of `SIDES`; with "right" every window but the last of a text is full, with "left" every one but the first.

    Returns:
        A `Rows`, with consecutive windows of a text in the order of the text.

    Raises:
        ValueError: the stride leaves no room to advance.
    """
    long = lengths[:, side] > room
    if (long & (room <= stride)).any():
        i = int((long & (room <= stride)).argmax())
        raise ValueError(f"stride must be less than the {room[i]} tokens that fit into a window of text {i}; got {stride}.")
    step = np.maximum(room - stride, 1)
    windows = np.where(long, -(-(lengths[:, side] - room) // step) + 1, 1)
    texts = np.repeat(np.arange(len(lengths)), windows)
    number = np.arange(len(texts)) - np.repeat(np.cumsum(windows) - windows, windows)
    first = np.zeros((len(texts), lengths.shape[1]), np.int64)
    if cut == "left":
        number = windows[texts] - 1 - number
    before = number * step[texts]
    counts = lengths[texts].copy()
    counts[:, side] = np.minimum(room[texts], lengths[texts, side] - before)
    first[:, side] = lengths[texts, side] - before - counts[:, side] if cut == "left" else before
    return Rows(texts, first, counts)


def has_max_context(rows, side):
    """For every token of every window, whether this window shows its maximum context.

    The context of a token in a window is the minimum of the numbers of tokens before and after it, plus a hundredth of the window's
    length.

    Returns:
        A list of bool arrays, one per row.

    Reference: `_check_is_max_context` in `run_squad.py` of google-research/bert.
    """
    first, counts = rows.first[:, side], rows.counts[:, side]
    best = []
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(rows.texts)) + 1, [len(first)]])
    for low, high in itertools.pairwise(bounds.tolist()):
        length = (first[low:high] + counts[low:high]).max(initial=0)
        maximum, winner = np.full(length, -1.0), np.full(length, -1)
        # Compare each window only within its own span: over the whole text, the time would be quadratic in its length.
        for row in range(low, high):
            span, before = slice(first[row], first[row] + counts[row]), np.arange(counts[row])
            context = np.minimum(before, before[::-1]) + 0.01 * counts[row]
            more = context > maximum[span]
            maximum[span][more], winner[span][more] = context[more], row
        best += [winner[first[row] : first[row] + counts[row]] == row for row in range(low, high)]
    return best
