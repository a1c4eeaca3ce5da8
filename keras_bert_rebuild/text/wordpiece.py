"""Words cut into the pieces of a vocabulary."""


def split_pieces(word, vocabulary):
    """Cut a word into the longest pieces from left to right, as keras_bert does.

    Where no piece of the vocabulary fits, one character stands as a piece of its own; Google makes the whole word `[UNK]` instead.

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
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        stop = next((stop for stop in range(len(word), start, -1) if prefix + word[start:stop] in vocabulary), start + 1)
        pieces.append(prefix + word[start:stop])
        start = stop
    return pieces
