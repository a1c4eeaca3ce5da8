"""Counter-based random numbers: each is a function of a key and a counter, computed without those before it."""

import enum

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15
_STREAM = 0xD1342543DE82EF95
_ALL_BITS = 2**64 - 1
_SHIFTS = tuple(np.uint64(n) for n in (30, 27, 31))
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
# Pairs of rounds of the permutation; with fewer, permutations of a handful of positions are visibly uneven.
_ROUNDS = 8


class Stream(enum.IntEnum):
    """The purpose of a random number; different streams are independent."""

    ORDER = 0
    PHASE = 1
    PAIR = 2
    CUT = 3
    UNIT = 4
    NGRAM = 5
    REPLACEMENT = 6
    REPLACEMENT_ID = 7
    MEMBERS = 8
    SAMPLE = 9
    FACTORISATION = 10


def keys(seed, epoch, positions):
    """The key of every position of an epoch, uint64, with the shape that `epoch` and `positions` broadcast to.

    Args:
        seed: an integer, taken modulo 2⁶⁴.
        epoch: a whole number from 0, or an array of them.
        positions: integers from 0.

    Reference: Steele et al., 2014, "Fast splittable pseudorandom number generators", section 5 (the mixing function).
    """
    with np.errstate(over="ignore"):
        x = _mixed(np.asarray((int(seed) + _GOLDEN) & _ALL_BITS, "uint64"))
        x = _mixed(x + _as_words(epoch) * np.uint64(_GOLDEN))
        return _mixed(x + _as_words(positions) * np.uint64(_GOLDEN) + np.uint64(1))


def bits(keys, counters, stream):
    """64 random bits, uint64, for every key and counter, with the shape that both broadcast to."""
    with np.errstate(over="ignore"):
        return _mixed(_of_stream(keys, stream) + (_as_words(counters) + np.uint64(1)) * np.uint64(_GOLDEN))


def uniform_at(keys, counters, stream):
    """A number in [0, 1) for every key and counter, float64, with the shape that both broadcast to."""
    return (bits(keys, counters, stream) >> np.uint64(11)) * 2.0**-53


def uniform(keys, n, stream):
    """`n` numbers in [0, 1) for every key, float64, `(..., n)`."""
    return uniform_at(keys[..., None], np.arange(n), stream)


def below(uniform, high):
    """Integers in [0, high), int64, from numbers in [0, 1)."""
    return (uniform * high).astype("int64")


def permuted(keys, n, positions):
    """The values of a random permutation of range(n) at some positions, int64.

    No array of size `n` is made. A position is written as row and column of the smallest near-square that holds `n`; the two are
    alternately shifted by a random function of the other; values outside range(n) are permuted again.

    Args:
        keys: the key of the permutation, uint64, one for all positions or one for each.
        n: at least 1; one for all positions or one for each.
        positions: integers in [0, n).

    Reference: Black and Rogaway, 2002, "Ciphers with arbitrary finite domains", section 4 (cycle walking, generalised Feistel).
    """
    n = np.asarray(n, "int64")
    rows = np.sqrt(n - 1).astype("int64") + 1
    x, keys, *sides, n = np.broadcast_arrays(
        _as_words(positions), _of_stream(keys, Stream.ORDER), _as_words(rows), _as_words(-(-n // rows)), _as_words(n)
    )
    x = _shuffled(keys, *sides, x)
    while (outside := x >= n).any():
        x[outside] = _shuffled(keys[outside], *(side[outside] for side in sides), x[outside])
    return x.astype("int64")


def _shuffled(keys, rows, columns, x):
    row, column = np.divmod(np.atleast_1d(x), columns)
    for i in range(_ROUNDS):
        # Each round uses other numbers: a side is shorter than 2⁴⁰.
        row = (row + _mixed(keys + column + np.uint64(2 * i << 40))) % rows
        column = (column + _mixed(keys + row + np.uint64(2 * i + 1 << 40))) % columns
    return (row * columns + column).reshape(x.shape)


def _of_stream(keys, stream):
    with np.errstate(over="ignore"):
        return _mixed(keys + np.uint64(((int(stream) + 1) * _STREAM) & _ALL_BITS))


def _as_words(numbers):
    return np.asarray(numbers).astype("uint64")


def _mixed(x):
    x = x ^ (x >> _SHIFTS[0])
    x *= _FACTORS[0]
    x ^= x >> _SHIFTS[1]
    x *= _FACTORS[1]
    x ^= x >> _SHIFTS[2]
    return x
