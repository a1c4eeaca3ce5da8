"""Offsets of SentencePiece's pieces in a text."""

import bisect

SPACE = "▁"


def piece_offsets(model, text, pieces, origins):
    """Offsets of the pieces of one text.

    SentencePiece normalises a text and splits the result; for every normalised character it returns the offset of the first
    original one.

    Args:
        model: a `SentencePieceProcessor`.
        text: its input.
        pieces: its output, strings.
        origins: None, or for every character of `text` the first one of the original and the one after the last.

    Returns:
        Starts, stops and word indices, a list each. A piece that is only the mark of a space has an empty span before the word.

    Raises:
        ValueError: the pieces are not the normalised text.
    """
    plain, begins = model.normalize(text, with_offsets=True)
    begins = _split_unchanged(text, plain, begins)
    if "".join(pieces) != plain:
        raise ValueError(f"pieces must form the normalised text, for offsets; those of {text[:40]!r} do not.")
    starts, stops, words = [], [], []
    end, word = 0, -1
    for piece in pieces:
        begin, end = end, end + len(piece)
        if piece[0] == SPACE or word < 0:
            word += 1
        bare = begin + (piece[0] == SPACE)
        start = begins[bare]
        stop = _tight(model, text, begins, end - 1) if end > bare else start
        if origins is not None:
            start, stop = _original(start, stop, *origins)
        starts.append(start)
        stops.append(stop)
        words.append(word)
    return starts, stops, words


def _split_unchanged(text, plain, begins):
    """Offsets of single characters where SentencePiece has one offset for several unchanged ones, as in user-defined pieces."""
    begins = list(begins)
    first = 0
    while first < len(plain):
        end = bisect.bisect_right(begins, begins[first])
        first += plain[first] == SPACE
        if end - first > 1 and text[begins[first] : begins[first] + end - first] == plain[first:end]:
            begins[first:end] = range(begins[first], begins[first] + end - first)
        first = max(end, first)
    return begins


def _tight(model, text, begins, last):
    """The offset after the original characters of a normalised one, without trailing ones that normalisation drops."""
    start = begins[last]
    following = bisect.bisect_right(begins, start)
    stop = begins[following] if following < len(begins) else len(text)
    whole = model.normalize(text[start:stop]) if stop - start > 1 else None
    while stop - start > 1 and model.normalize(text[start : stop - 1]) == whole:
        stop -= 1
    return stop


def _original(start, stop, starts, stops):
    if start == stop:
        offset = starts[start] if start < len(starts) else stops[-1]
        return offset, offset
    return starts[start], stops[stop - 1]
