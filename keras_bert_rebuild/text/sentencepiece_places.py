"""Where SentencePiece's pieces stand in a text."""

import bisect

SPACE = "▁"


def piece_places(model, text, pieces, origins):
    """Places of the pieces of one text.

    SentencePiece normalises a text and cuts the outcome; it tells for every character of that the place in the text where the
    characters begin that it was made of.

    Args:
        model: a `SentencePieceProcessor`.
        text: what was given to it.
        pieces: what it gave, strings.
        origins: None, or for every character of `text` the first one of the original and the one behind the last.

    Returns:
        Starts, stops and numbers of the words, a list each. A piece that is only the mark of a space is an empty place before the
        word.

    Raises:
        ValueError: the pieces are not the normalised text.
    """
    plain, begins = model.normalize(text, with_offsets=True)
    begins = _one_by_one(text, plain, begins)
    if "".join(pieces) != plain:
        raise ValueError(f"pieces must make up the text that they were cut from, for offsets; those of {text[:40]!r} do not.")
    starts, stops, words = [], [], []
    place, word = 0, -1
    for piece in pieces:
        begin, place = place, place + len(piece)
        if piece[0] == SPACE or word < 0:
            word += 1
        bare = begin + (piece[0] == SPACE)
        start = begins[bare]
        stop = _tight(model, text, begins, place - 1) if place > bare else start
        if origins is not None:
            start, stop = _original(start, stop, *origins)
        starts.append(start)
        stops.append(stop)
        words.append(word)
    return starts, stops, words


def _one_by_one(text, plain, begins):
    """Places of characters that stayed as they are though SentencePiece took several of them for one, as in user-defined pieces."""
    begins = list(begins)
    first = 0
    while first < len(plain):
        behind = bisect.bisect_right(begins, begins[first])
        first += plain[first] == SPACE
        if behind - first > 1 and text[begins[first] : begins[first] + behind - first] == plain[first:behind]:
            begins[first:behind] = range(begins[first], begins[first] + behind - first)
        first = max(behind, first)
    return begins


def _tight(model, text, begins, last):
    """Behind the characters that a normalised one was made of, without such as leave no trace."""
    start = begins[last]
    behind = bisect.bisect_right(begins, start)
    stop = begins[behind] if behind < len(begins) else len(text)
    whole = model.normalize(text[start:stop]) if stop - start > 1 else None
    while stop - start > 1 and model.normalize(text[start : stop - 1]) == whole:
        stop -= 1
    return stop


def _original(start, stop, starts, stops):
    if start == stop:
        place = starts[start] if start < len(starts) else stops[-1]
        return place, place
    return starts[start], stops[stop - 1]
