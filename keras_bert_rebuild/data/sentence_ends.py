"""Which tokens end a sentence, and where in a corpus sentences begin."""

import numpy as np

# A sentence ends with one of the first, and what of the second follows belongs to it. The third open and close alike: no sentence
# is said to begin beside one.
ENDS = frozenset(".!?。！？．।॥؟۔։።…")
CLOSES = frozenset("”’»›)]}」』）］】》")
EITHER = frozenset("\"'*_")

OTHER, END, CLOSE, UNCERTAIN = range(4)

# Tokens that are looked at before a place: the end of a sentence, and what may close behind it.
BEFORE = 3


def sentence_marks(vocabulary):
    """What every token of a vocabulary is to the end of a sentence: `OTHER`, `END`, `CLOSE` or `UNCERTAIN`, uint8."""
    kinds = {**dict.fromkeys(ENDS, END), **dict.fromkeys(CLOSES, CLOSE), **dict.fromkeys(EITHER, UNCERTAIN)}
    return np.array([kinds.get(token, OTHER) for token in vocabulary], "uint8")


def sentence_begins(marks):
    """Where a sentence begins, as the marks behind the one before tell.

    An abbreviation or a number with a point passes for an end: who needs better cuts the text into sentences, a passage each.

    Args:
        marks: of rows of tokens, and of `BEFORE` tokens before each row, as from `sentence_marks`, `(rows, BEFORE + width)`.

    Returns:
        True where one begins, `(rows, width)`, documents and passages not looked at.
    """
    ended = marks == END
    for _ in range(BEFORE - 1):
        ended[:, 1:] |= (marks[:, 1:] == CLOSE) & ended[:, :-1]
    return ended[:, BEFORE - 1 : -1] & (marks[:, BEFORE:] == OTHER)
