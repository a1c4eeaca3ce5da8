"""The random numbers in a batch of a model that samples tokens."""

# Whole numbers of this many bits, which float32 holds exactly.
DRAW_BITS = 24
