"""Random numbers per batch for a model that samples tokens."""

# Integers of this many bits, which float32 represents exactly.
DRAW_BITS = 24
