"""WordPiece as in Google's code: greedy longest match; a word is split completely or is unknown."""

# Longer words are `[UNK]`.
MAX_WORD_CHARACTERS = 200


class LongestMatch:
    """Splits words into the pieces of a vocabulary.

    Args:
        vocabulary: token to id; a token that continues a word starts with `##`.

    Reference: `WordpieceTokenizer` in `tokenization.py` of google-research/bert; Wu et al., 2016, section 4.1.
    """

    def __init__(self, vocabulary):
        self._first = vocabulary
        self._rest = {token[2:]: i for token, i in vocabulary.items() if token.startswith("##")}
        self._longest_first, self._longest_rest = _longest(self._first), _longest(self._rest)

    def __call__(self, word):
        """The pieces of a word.

        Returns:
            A list of alternating ids and stops: a piece covers the characters from the stop of the previous piece to its own. None
            if the word is unknown.
        """
        length = len(word)
        if length > MAX_WORD_CHARACTERS:
            return None
        pieces, start = [], 0
        known, longest = self._first, self._longest_first
        while start < length:
            stop = min(start + longest.get(word[start : start + 2], 1), length)
            while stop > start:
                i = known.get(word[start:stop])
                if i is not None:
                    break
                stop -= 1
            else:
                return None
            pieces += i, stop
            start = stop
            known, longest = self._rest, self._longest_rest
        return pieces


def _longest(pieces):
    """The length of the longest piece for every first two characters."""
    longest = {}
    for piece in pieces:
        if len(piece) > 1:
            longest[piece[:2]] = max(longest.get(piece[:2], 0), len(piece))
    return longest


# Pieces are tried up to the length of the longest in the vocabulary: otherwise the time would be quadratic in long words.
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
