"""Few lengths to pad rows to, where every length is a program that has to be compiled."""

import bisect
import itertools
import math

import numpy as np

# Lengths of one kind of batch, each a program of its own.
MOST = 5

# Rows whose lengths say something about those to come.
ENOUGH = 256


def few_lengths(longest):
    """At most `MOST` lengths up to the longest, in equal ratios from 16 and multiples of 8.

    Example:

    >>> few_lengths(512), few_lengths(40), few_lengths(12)
    ([16, 40, 96, 216, 512], [16, 24, 32, 40], [12])
    """
    if longest <= 16:
        return [longest]
    ratio = (longest / 16) ** (1 / (MOST - 1))
    steps = {math.ceil(round(16 * ratio**step, 6) / 8) * 8 for step in range(MOST - 1)}
    return [*sorted(step for step in steps if step < longest), longest]


def candidates(longest):
    """The lengths to choose from: 8, 12, 16, 24, 32, 48 and so on, so that programs of other texts are used again."""
    lengths = (base << double for double in range(longest.bit_length()) for base in (8, 12))
    return [*sorted(length for length in lengths if length < longest), longest]


def chosen_lengths(sizes, longest, most=MOST, price=0):
    """The lengths with the least padding for rows of these sizes, and what longer rows need.

    Args:
        sizes: tokens of every row, an array; with fewer than `ENOUGH` rows the answer is `few_lengths`, which depends on nothing.
        longest: the longest row that may come, the last of the lengths.
        most: maximum number of lengths for these rows.
        price: what a length costs, in tokens that could be computed while its program is compiled.

    Returns:
        A list of at most `most` of `candidates`, ascending; after them, if longer rows may come, each length twice the one before,
        since a program is compiled when the first row needs it.

    Example:

    >>> chosen_lengths([10] * 500 + [30] * 500, 100, most=2)
    [12, 32, 64, 100]
    >>> chosen_lengths([10] * 500 + [30] * 500, 32, price=20_000)
    [32]
    """
    if len(sizes) < ENOUGH:
        return few_lengths(longest)
    sizes, known = np.sort(sizes), candidates(longest)
    *others, last = known[: bisect.bisect_left(known, sizes[-1]) + 1]
    rows = {length: int(np.searchsorted(sizes, length, "right")) for length in (0, *others, last)}  # at most so long

    def tokens(lengths):
        computed = sum((rows[length] - rows[shorter]) * length for shorter, length in itertools.pairwise((0, *lengths)))
        return computed + price * len(lengths)

    subsets = itertools.chain.from_iterable(itertools.combinations(others, count) for count in range(most))
    lengths = list(min(((*subset, last) for subset in subsets), key=tokens))
    while lengths[-1] < longest:
        lengths.append(min(2 * lengths[-1], longest))
    return lengths
