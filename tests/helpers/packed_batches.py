"""The same sequences as packed rows and apart, and a step on either."""

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild import compile_model
from keras_bert_rebuild.anatomy.heads import DRAW_BITS

# Lengths of the sequences of each row; some rows end with padding.
ROWS, WIDTH = ((3, 7, 6), (16,), (2, 5, 4, 3)), 16


def sequences(rng, config):
    """Tokens, which of them are predicted, and a draw for each, of every sequence."""
    made = []
    for length in (length for row in ROWS for length in row):
        chosen = np.zeros(length, int)
        chosen[rng.permutation(length)[: 1 + length // 4]] = 1
        tokens = rng.integers(5, config.vocab_size, length)
        made.append((tokens, chosen, rng.integers(0, 1 << DRAW_BITS, length)))
    return made


def laid_out(config, given, rows, width=WIDTH):
    """Inputs by name, and the labels, of rows that hold these sequences; the second half of each has the last segment id."""
    shape = len(rows), width
    tokens, chosen, draws, numbers, segments = (np.full(shape, fill, "int32") for fill in (config.pad_token_id, 0, 0, 0, 0))
    left = iter(given)
    for row, lengths in enumerate(rows):
        at = 0
        for length in lengths:
            part = slice(at, at + length)
            tokens[row, part], chosen[row, part], draws[row, part] = next(left)
            numbers[row, part] = at + 1
            segments[row, at + length // 2 : at + length] = max(config.type_vocab_size - 1, 0)
            at += length
    masked = np.where(chosen == 1, 4, tokens).astype("int32")
    names = {"Input-Token": masked, "Input-Segment": segments, "Input-Draw": draws, "Input-Masked": chosen, "Input-Mask": numbers}
    return names, tokens[..., None]


def step(model, inputs, labels, **settings):
    """The loss of a step and the gradient of every weight, by its path."""
    compile_model(model, optimizer=keras.optimizers.SGD(1.0), **settings)
    before = {weight.path: np.array(ops.convert_to_numpy(weight)) for weight in model.trainable_weights}
    loss = model.train_on_batch(tuple(inputs[tensor.name] for tensor in model.inputs), labels)
    after = {weight.path: ops.convert_to_numpy(weight) for weight in model.trainable_weights}
    return np.ravel(loss)[0], {path: before[path] - after[path] for path in before}
