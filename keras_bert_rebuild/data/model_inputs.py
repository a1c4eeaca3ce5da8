"""Rows of token ids as the arrays that a model takes."""

import numpy as np

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one


def padded(sequences, length, padding=0, dtype="int32"):
    """Sequences as rows of an array `(sequences, length, ...)`, filled up with `padding`."""
    first = np.asarray(sequences[0])
    rows = np.full((len(sequences), length, *first.shape[1:]), padding, dtype)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = sequence
    return rows


def input_arrays(inputs, length, padding):
    """The rows of every input of a model as an array, padded to a length; the array itself where there is one input.

    Args:
        inputs: for every input a list of rows.
        length: the length of the arrays.
        padding: for every input what it is filled up with.
    """
    return bare_if_one(tuple(padded(rows, length, pad) for rows, pad in zip(inputs, padding, strict=True)))


def model_inputs(names, ids, segments, pad_id, masked=None):
    """What a model takes for rows of token ids: for each of its inputs the rows, and what they are filled up with.

    Args:
        names: the names of the inputs, of which rows decide `Input-Token`, `Input-Segment` and `Input-Mask`.
        ids, segments: lists of rows.
        pad_id: the token of padding.
        masked: for `Input-Masked`, rows that are not zero where a token is to be predicted; None if the model has no such input.

    Returns:
        A list of lists of rows and a list of numbers, as `input_arrays` takes them.

    Raises:
        ValueError: the model has an input that rows do not decide.
    """
    known = {
        "Input-Token": lambda: (ids, pad_id),
        "Input-Segment": lambda: (segments, 0),
        "Input-Mask": lambda: ([np.ones(len(row), "int32") for row in ids], 0),
        **({} if masked is None else {"Input-Masked": lambda: (masked, 0)}),
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"the model must have no inputs but {', '.join(known)}; it has {', '.join(unknown)}, too.")
    inputs, padding = zip(*(known[name]() for name in names), strict=True)
    return list(inputs), list(padding)
