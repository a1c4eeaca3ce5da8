"""WordPiece as Google applies it: the longest piece first, and a word is known whole or not at all."""

# A longer word is `[UNK]`.
MAX_WORD_CHARACTERS = 200


class LongestMatch:
    """Cut words into the pieces of a vocabulary.

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
            A list of (id, start, stop), the characters that a piece stands for; or None if the word is unknown.
        """
        length = len(word)
        if length > MAX_WORD_CHARACTERS:
            return None
        pieces, start = [], 0
        known, longest = self._first, self._longest_first
        while start < length:
            stop = min(start + longest.get(word[start], 0), length)
            while stop > start:
                i = known.get(word[start:stop])
                if i is not None:
                    break
                stop -= 1
            else:
                return None
            pieces.append((i, start, stop))
            start = stop
            known, longest = self._rest, self._longest_rest
        return pieces


def _longest(pieces):
    """For every first character the length of the longest piece that starts with it."""
    longest = {}
    for piece in pieces:
        if piece:
            longest[piece[0]] = max(longest.get(piece[0], 0), len(piece))
    return longest
