"""Which tokens end a sentence, and where in a corpus sentences begin."""

import numpy as np

# A sentence ends with one of the first, and what of the second follows belongs to it. The third open and close alike: no sentence
# is said to begin beside one.
ENDS = frozenset(".!?。！？．।॥؟۔։።…")
CLOSES = frozenset("”’»›)]}」』）］】》")
EITHER = frozenset("\"'*_")

OTHER, END, CLOSE, UNCERTAIN = range(4)

# How many marks may stand between the end of a sentence and the next one.
_MARKS = 3


def sentence_marks(vocabulary):
    """What every token of a vocabulary is to the end of a sentence: `OTHER`, `END`, `CLOSE` or `UNCERTAIN`, uint8."""
    kinds = {**dict.fromkeys(ENDS, END), **dict.fromkeys(CLOSES, CLOSE), **dict.fromkeys(EITHER, UNCERTAIN)}
    return np.array([kinds.get(token, OTHER) for token in vocabulary], "uint8")


def sentence_begins(store, marks, starts, width):
    """Where a sentence begins, as the marks behind the one before tell.

    An abbreviation or a number with a point passes for an end: who needs better cuts the text into sentences, a passage each.

    Args:
        store: a corpus.
        marks: of its vocabulary, as from `sentence_marks`.
        starts: positions in the corpus, `(rows,)`.
        width: positions of a row.

    Returns:
        True where one begins at `starts[row] + column`, `(rows, width)`, documents and passages not looked at.
    """
    places = np.asarray(starts)[:, None] + np.arange(-_MARKS, width)
    kinds = marks[store.ids_at(np.clip(places, 0, store.num_tokens - 1))]
    ended = kinds == END
    for _ in range(_MARKS - 1):
        ended[:, 1:] |= (kinds[:, 1:] == CLOSE) & ended[:, :-1]
    return ended[:, _MARKS - 1 : -1] & (kinds[:, _MARKS:] == OTHER)
