"""A few lengths to pad rows to, for backends that compile a program per length."""

import bisect
import itertools
import math

import numpy as np

# Maximum number of lengths of one kind of batch; each is a program to compile.
MOST = 5

# Minimum number of rows whose lengths are representative of those to come.
ENOUGH = 256


def few_lengths(longest):
    """At most `MOST` lengths up to the longest, roughly geometric from 16, multiples of 8.

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
    """The lengths to choose from: 8, 12, 16, 24, 32, 48 and so on, so that programs compiled for other texts are reused."""
    lengths = (base << double for double in range(longest.bit_length()) for base in (8, 12))
    return [*sorted(length for length in lengths if length < longest), longest]


def chosen_lengths(sizes, longest, most=MOST, price=0):
    """The lengths with the least padding for rows of these sizes, followed by lengths for longer rows.

    Args:
        sizes: tokens of every row, an array; if there are fewer than `ENOUGH` rows and no price, the result is
            `few_lengths(longest)`.
        longest: the longest row that may come, and the last of the lengths.
        most: maximum number of lengths for the given rows.
        price: cost of a length, in tokens that could be computed in the time it takes to compile its program.

    Returns:
        A list of at most `most` of `candidates`, ascending; if longer rows may come, further lengths follow, each twice the
        previous one, since a program is only compiled when a row needs it.

    Example:

    >>> chosen_lengths([10] * 500 + [30] * 500, 100, most=2)
    [12, 32, 64, 100]
    >>> chosen_lengths([10] * 500 + [30] * 500, 32, price=20_000)
    [32]
    """
    if len(sizes) < ENOUGH and not price:
        return few_lengths(longest)
    sizes, known = np.sort(sizes), candidates(longest)
    *others, last = known[: bisect.bisect_left(known, sizes[-1]) + 1]
    rows = {length: int(np.searchsorted(sizes, length, "right")) for length in (0, *others, last)}  # rows of at most this length

    def tokens(lengths):
        computed = sum((rows[length] - rows[shorter]) * length for shorter, length in itertools.pairwise((0, *lengths)))
        return computed + price * len(lengths)

    subsets = itertools.chain.from_iterable(itertools.combinations(others, count) for count in range(most))
    lengths = list(min(((*subset, last) for subset in subsets), key=tokens))
    while lengths[-1] < longest:
        lengths.append(min(2 * lengths[-1], longest))
    return lengths
