"""How many sequences a packed row may hold if a model has an output for each of them."""


def most_sequences(length):
    """The maximum number of sequences of a row: one per 8 tokens, of which 3 are special tokens of a pair.

    Args:
        length: length of the row, a number or a tensor.
    """
    return (length + 7) // 8
