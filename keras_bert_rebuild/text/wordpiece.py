"""Words split into the pieces of a vocabulary."""

# In a longer word, pieces up to the longest one of the vocabulary are tried: otherwise the time would be quadratic in its length.
LONG_WORD = 200


def split_pieces(word, vocabulary):
    """Split a word into the longest pieces from left to right, as keras_bert does.

    Where no piece of the vocabulary fits, one character is a piece of its own; Google makes the whole word `[UNK]` instead.

    Args:
        word: a string without white space.
        vocabulary: a set or dictionary of pieces; those that continue a word start with `##`.

    Returns:
        The pieces; those after the first start with `##`.

    Example:

    >>> split_pieces("unwanted", {"un", "##want", "##ed"})
    ['un', '##want', '##ed']

    Reference: Wu et al., 2016, section 4.1 (https://arxiv.org/abs/1609.08144).
    """
    if word in vocabulary:
        return [word]
    longest = len(word) if len(word) <= LONG_WORD else max(map(len, vocabulary), default=0)
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        stops = range(min(len(word), start + longest), start, -1)
        stop = next((stop for stop in stops if prefix + word[start:stop] in vocabulary), start + 1)
        pieces.append(prefix + word[start:stop])
        start = stop
    return pieces
