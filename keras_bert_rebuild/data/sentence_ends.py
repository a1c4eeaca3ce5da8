"""Which tokens end a sentence, and where in a corpus sentences begin."""

import numpy as np

# A sentence ends with one of the first, and those of the second that follow belong to it. The third both open and close: no
# sentence is assumed to begin next to one.
ENDS = frozenset(".!?。！？．।॥؟۔։።…")
CLOSES = frozenset("”’»›)]}」』）］】》")
EITHER = frozenset("\"'*_")

OTHER, END, CLOSE, UNCERTAIN = range(4)

# Tokens that are inspected before a position: the end of a sentence, and what may close after it.
BEFORE = 3


def sentence_marks(vocabulary):
    """The role of every token of a vocabulary at the end of a sentence: `OTHER`, `END`, `CLOSE` or `UNCERTAIN`, uint8."""
    kinds = {**dict.fromkeys(ENDS, END), **dict.fromkeys(CLOSES, CLOSE), **dict.fromkeys(EITHER, UNCERTAIN)}
    return np.array([kinds.get(token, OTHER) for token in vocabulary], "uint8")


def sentence_begins(marks):
    """Where sentences begin, according to the marks at the end of the sentences before them.

    An abbreviation or a number with a point counts as an end: for better results, split the text into sentences, one per passage.

    Args:
        marks: marks of rows of tokens and of `BEFORE` tokens before each row, from `sentence_marks`, `(rows, BEFORE + width)`.

    Returns:
        True where one begins, `(rows, width)`, regardless of documents and passages.
    """
    ended = marks == END
    for _ in range(BEFORE - 1):
        ended[:, 1:] |= (marks[:, 1:] == CLOSE) & ended[:, :-1]
    return ended[:, BEFORE - 1 : -1] & (marks[:, BEFORE:] == OTHER)
