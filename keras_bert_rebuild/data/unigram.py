"""The baseline without context."""

import numpy as np


def unigram_log_probabilities(ids, vocab_size):
    """The log probability of every token of the vocabulary from its count, with one added to each (Laplace), `(vocab_size,)`."""
    counts = np.bincount(ids, minlength=vocab_size) + 1.0
    return np.log(counts / counts.sum())
