"""Token ids as a model takes them: cut, between special tokens, padded."""

from dataclasses import dataclass

import numpy as np

from keras_bert_rebuild.text.flat_tokens import ragged_range

TRUNCATIONS = ("longest_first", "only_first", "only_second")


@dataclass
class Encoding:
    """A batch of texts or pairs. Without padding every field but `texts` is a list of arrays, one a row."""

    ids: np.ndarray
    """Token ids `(rows, length)`, int32."""

    segments: np.ndarray
    """0 for the first text and for padding, 1 for the second (for RoBERTa 0, too), `(rows, length)`."""

    mask: np.ndarray
    """1 at tokens, 0 at padding, `(rows, length)`."""

    texts: np.ndarray
    """The text or pair that every row belongs to `(rows,)`; with windows a text has several rows."""

    offsets: np.ndarray | None = None
    """First character of a token and the one behind its last, in its own text, `(rows, length, 2)`; (0, 0) at special tokens and
    padding."""

    word_ids: np.ndarray | None = None
    """Number of a token's word in its own text, from 0, `(rows, length)`; -1 at special tokens and padding."""

    positions: np.ndarray | None = None
    """With windows: number of a token in its own text `(rows, length)`; -1 at special tokens and padding."""

    max_context: np.ndarray | None = None
    """With windows: whether no other window shows more around this token of the text cut into windows, `(rows, length)`."""

    @property
    def inputs(self) -> list[np.ndarray]:
        """What the model takes: `[ids, segments]`."""
        return [self.ids, self.segments]


@dataclass(frozen=True)
class Frame:
    """The special tokens around the texts of a row: `[CLS] A [SEP]`, `[CLS] A [SEP] B [SEP]`."""

    cls_id: int
    sep_id: int
    pad_id: int

    separators: int = 1
    """Separators between the texts of a pair."""

    second_segment: int = 1
    """Segment of the second text and the separator behind it."""

    def size(self, sides):
        """Special tokens of a row of so many texts."""
        return 1 + sides + (sides - 1) * (self.separators - 1)


@dataclass(frozen=True)
class Rows:
    """Which tokens every row has: of each of its one or two texts, so many from a first one on; `(rows, sides)` each."""

    texts: np.ndarray
    """Index of the text or pair `(rows,)`."""

    first: np.ndarray
    """The first token, counted in the text."""

    counts: np.ndarray
    """How many tokens."""


def whole_rows(lengths, room, truncation):
    """A row for every text or pair, cut to what there is room for.

    Args:
        lengths: tokens of every text `(texts, 1)`, or of both texts of every pair `(pairs, 2)`.
        room: tokens of a row without the special ones, or None.
        truncation: `longest_first` takes from the end of the longer text, from the second where both are as long; `only_first` and
            `only_second` from that one.

    Raises:
        ValueError: the text that may not be cut does not leave a token of the other.
    """
    counts = lengths
    if room is not None:
        if lengths.shape[1] == 1:
            counts = np.minimum(lengths, room)
        elif truncation == "longest_first":
            second = np.minimum(lengths[:, 1], np.maximum(room // 2, room - lengths[:, 0]))
            counts = np.stack([np.minimum(lengths[:, 0], room - second), second], axis=1)
        else:
            side = TRUNCATIONS.index(truncation) - 1
            rest = remaining_room(lengths, room, side)
            counts = lengths.copy()
            counts[:, side] = np.minimum(lengths[:, side], rest)
    return Rows(np.arange(len(lengths)), np.zeros_like(lengths), counts)


def remaining_room(lengths, room, side):
    """What one text of a pair leaves for the other, `side`, `(pairs,)`."""
    rest = room - lengths[:, 1 - side]
    short = (rest < 1) & (lengths.sum(1) > room)
    if short.any():
        i = int(short.argmax())
        raise ValueError(
            f"truncation {TRUNCATIONS[1 + side]!r} must leave room for a token of that text; the other one of pair {i} has "
            f"{lengths[i, 1 - side]} tokens, and max_len leaves {room}."
        )
    return rest


def assemble(sides, rows, frame, pad_to, max_context=None):
    """Rows of ids between special tokens.

    Args:
        sides: `FlatTokens` of the texts and, for pairs, of the second texts.
        rows: a `Rows`.
        frame: a `Frame`.
        pad_to: None, `"longest"`, a length, or a list of lengths of which the least that holds every row is taken.
        max_context: with windows, the side that they cut and what `has_max_context` gave for it; then positions are given, too.

    Returns:
        An `Encoding`; with offsets and words if the tokens have them.
    """
    totals = rows.counts.sum(1) + frame.size(len(sides))
    width = _width(totals, pad_to)
    shape = (len(totals), width)
    columns = np.arange(width, dtype=np.int32)
    mask = columns < totals.astype(np.int32)[:, None]
    encoding = Encoding(np.full(shape, frame.pad_id, np.int32), np.zeros(shape, np.int32), mask.astype(np.int32), rows.texts)
    encoding.ids[:, :1] = frame.cls_id
    if sides[0].starts is not None:
        encoding.offsets, encoding.word_ids = np.zeros((*shape, 2), np.int32), np.full(shape, -1, np.int32)
    if max_context is not None:
        encoding.positions, encoding.max_context = np.full(shape, -1, np.int32), np.zeros(shape, bool)
    first = np.arange(len(totals)) * width
    start = np.ones(len(totals), np.int64)
    for side, flat in enumerate(sides):
        counts = rows.counts[:, side]
        # Places are counted over all rows: to go to a few places costs less than to look at every place.
        places = ragged_range(first + start, counts)
        source = _source(flat, rows, side)
        encoding.ids.ravel()[places] = flat.ids[source]
        if encoding.offsets is not None:
            offsets = encoding.offsets.reshape(-1, 2)
            offsets[places, 0], offsets[places, 1] = flat.starts[source], flat.stops[source]
            encoding.word_ids.ravel()[places] = flat.words[source]
        if max_context is not None:
            encoding.positions.ravel()[places] = ragged_range(rows.first[:, side], counts)
            if side == max_context[0] and max_context[1]:
                encoding.max_context.ravel()[places] = np.concatenate(max_context[1])
        separators = frame.separators if side < len(sides) - 1 else 1
        for column in range(separators):
            encoding.ids.ravel()[first + start + counts + column] = frame.sep_id
        if side:
            encoding.segments[(columns >= start[:, None]) & mask] = frame.second_segment
        start = start + counts + separators
    return encoding


def _source(flat, rows, side):
    """Where the tokens of all rows lie among those of the texts."""
    if len(rows.texts) == len(flat.lengths) and np.array_equal(rows.counts[:, side], flat.lengths):
        return slice(None)
    return ragged_range(flat.first[rows.texts] + rows.first[:, side], rows.counts[:, side])


def without_padding(encoding):
    """The same with lists of arrays of every row's own length."""
    lengths = encoding.mask.sum(1)
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
        raise ValueError(f"pad_to must hold the longest row of {longest} tokens; got {pad_to}: give max_len, too, to cut it.")
    return min(fitting)
