"""The hash from which dropout on JAX and TensorFlow takes its random bits, as data for either.

A generator of a backend draws two words per row (last axis) of an array, a step and a start, of which the step is odd. The bits of
a column are start + column · step, 32 bits wide, mixed: eight operations, which XLA fuses with their use, so bits are drawn twice
and never stored. A value is retained if its bits, as an unsigned number, are at least `threshold(rate)`.

Reference: Steele et al., 2014, "Fast splittable pseudorandom number generators", section 2 (https://doi.org/10.1145/2660193.2660195).
"""

# x ← (x XOR (x >> shift)) · factor for each: a bijection of 32-bit integers, of which each of the upper 16 bits depends on all
# input bits; these decide, up to 2⁻¹⁶.
# Reference: Wellons, 2018, "Prospecting for hash functions", lowbias32 without its last step, which only changes the lower 16 bits
# (https://nullprogram.com/blog/2018/07/31/).
MIXING = ((16, 0x7FEB352D), (15, 0x846CA68B))


def threshold(rate: float) -> int:
    """The least bits of a retained value: the rate, in (0, 1), as a multiple of 2⁻³²."""
    return min(round(rate * 2**32), 2**32 - 1)


def gain_of(rate: float) -> float:
    """The factor of retained values: 1 / (1 − rate)."""
    return 1 / (1 - threshold(rate) / 2**32)
