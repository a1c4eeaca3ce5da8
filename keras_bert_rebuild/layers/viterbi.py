"""The best labels of a chain and how sure they are, from the scores of labels and of what follows what, in NumPy."""

import numpy as np


def viterbi(scores, transitions):
    """The best sequence of labels.

        argmax begin[y_1] + Σ_i scores[i, y_i] + Σ_i next[y_i-1, y_i] + end[y_n]

    Args:
        scores: of every label at every place, `(places, labels)`.
        transitions: `(labels + 2, labels)`: the score of the label of the column behind that of the row, and in the last two rows
            of beginning and of ending with it; −inf for what may not be.

    Returns:
        The labels, `(places,)`; those that are best alone where none of the sequences may be.

    Reference: Viterbi, 1967; Lafferty, McCallum and Pereira, 2001.
    """
    places, labels = np.shape(scores)
    if not places:
        return np.zeros(0, "int64")
    between, begin, end = transitions[:labels], transitions[labels], transitions[labels + 1]
    score = begin + scores[0]
    origins = np.zeros((places, labels), "int64")
    for i in range(1, places):
        ways = score[:, None] + between
        origins[i] = ways.argmax(0)
        score = ways.max(0) + scores[i]
    score = score + end
    if score.max() == -np.inf:
        return np.argmax(scores, axis=1)
    best = np.zeros(places, "int64")
    best[-1] = score.argmax()
    for i in range(places - 1, 0, -1):
        best[i - 1] = origins[i, best[i]]
    return best


def marginals(scores, transitions):
    """The probability of every label at every place, over all sequences, `(places, labels)`; arguments as of `viterbi`.

    Reference: the forward-backward algorithm; Lafferty, McCallum and Pereira, 2001, section 3.
    """
    places, labels = np.shape(scores)
    if not places:
        return np.zeros((0, labels))
    between, begin, end = transitions[:labels], transitions[labels], transitions[labels + 1]
    before, behind = np.zeros((places, labels)), np.zeros((places, labels))
    before[0], behind[-1] = begin, end
    for i in range(1, places):
        before[i] = np.logaddexp.reduce((before[i - 1] + scores[i - 1])[:, None] + between, axis=0)
        behind[-1 - i] = np.logaddexp.reduce(between + scores[-i] + behind[-i], axis=1)
    total = before + scores + behind
    return np.exp(total - np.logaddexp.reduce(total, axis=1, keepdims=True))
