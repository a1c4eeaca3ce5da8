"""The best labels of a chain and their probabilities, from the scores of labels and of transitions, in NumPy."""

import numpy as np


def viterbi(scores, transitions):
    """The best sequence of labels.

        argmax begin[y_1] + Σ_i scores[i, y_i] + Σ_i next[y_i-1, y_i] + end[y_n]

    Args:
        scores: of every label at every position, `(length, labels)`.
        transitions: `(labels + 2, labels)`: the score of the column's label after the row's label, and in the last two rows of
            beginning and of ending with it; −inf for what is not allowed.

    Returns:
        The labels, `(length,)`; the best label of each position if no sequence is allowed.

    Reference: Viterbi, 1967; Lafferty, McCallum and Pereira, 2001.
    """
    length, labels = np.shape(scores)
    if not length:
        return np.zeros(0, "int64")
    between, begin, end = transitions[:labels], transitions[labels], transitions[labels + 1]
    score = begin + scores[0]
    previous = np.zeros((length, labels), "int64")
    for i in range(1, length):
        candidates = score[:, None] + between
        previous[i] = candidates.argmax(0)
        score = candidates.max(0) + scores[i]
    score = score + end
    if score.max() == -np.inf:
        return np.argmax(scores, axis=1)
    best = np.zeros(length, "int64")
    best[-1] = score.argmax()
    for i in range(length - 1, 0, -1):
        best[i - 1] = previous[i, best[i]]
    return best


def marginals(scores, transitions):
    """The probability of every label at every position, over all sequences, `(length, labels)`; arguments: see `viterbi`.

    Reference: the forward-backward algorithm; Lafferty, McCallum and Pereira, 2001, section 3.
    """
    length, labels = np.shape(scores)
    if not length:
        return np.zeros((0, labels))
    between, begin, end = transitions[:labels], transitions[labels], transitions[labels + 1]
    before, after = np.zeros((length, labels)), np.zeros((length, labels))
    before[0], after[-1] = begin, end
    for i in range(1, length):
        before[i] = np.logaddexp.reduce((before[i - 1] + scores[i - 1])[:, None] + between, axis=0)
        after[-1 - i] = np.logaddexp.reduce(between + scores[-i] + after[-i], axis=1)
    total = before + scores + after
    return np.exp(total - np.logaddexp.reduce(total, axis=1, keepdims=True))
