"""A small BERT, batches for it, packed and padded, and the answers of any model to them."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert_rebuild import build_model, compile_model, get_model
from keras_bert_rebuild.anatomy.heads import DRAW_BITS

VOCAB, LENGTH, HEADS, BLOCKS = 60, 12, 2, 2


def small_model(**changes):
    """A BERT of two blocks of 16, without dropout."""
    arguments = {
        "token_num": VOCAB,
        "pos_num": LENGTH,
        "seq_len": LENGTH,
        "embed_dim": 16,
        "transformer_num": BLOCKS,
        "head_num": HEADS,
        "feed_forward_dim": 32,
        "dropout_rate": 0.0,
    }
    return get_model(**{**arguments, **changes})


def spread(model, rng, scale=0.3):
    """Give every weight a random value, so that no bias is zero and no gamma is one."""
    for variable in model.weights:
        value = rng.normal(0, scale, variable.shape)
        variable.assign((value + 1 if variable.path.endswith("gamma") else value).astype("float32"))
    return model


def random_model(config, heads, rng):
    """A model of any family with random weights, none as it was initialised."""
    return spread(build_model(config, heads), rng)


def small_batch(rng, batch=8, padding=3, masked=3):
    """Inputs and labels: the last `padding` positions are padding, `masked` of the others are masked."""
    ids = rng.integers(5, VOCAB, (batch, LENGTH))
    ids[:, LENGTH - padding :] = 0
    segments = (np.arange(LENGTH)[None] > 5).astype(int) * np.ones((batch, 1), int)
    is_masked = np.zeros((batch, LENGTH), int)
    for row in is_masked:
        row[1 + rng.permutation(LENGTH - padding - 1)[:masked]] = 1
    labels = rng.integers(5, VOCAB, (batch, LENGTH, 1))
    return (ids, segments, is_masked), (labels, rng.integers(0, 2, (batch, 1)))


def compiled(model, **kwargs):
    """The model compiled with plain SGD, unless given otherwise."""
    kwargs.setdefault("optimizer", keras.optimizers.SGD(0.1))
    compile_model(model, **kwargs)
    if keras.backend.backend() == "tensorflow":
        make_variables(model)
    return model


def make_variables(model):
    """Create the variables of losses, metrics and optimizer: TensorFlow traces a step twice if the first trace creates one."""
    shape = lambda tensor: (1, *(size or LENGTH for size in tensor.shape[1:]))  # noqa: E731
    x = [ops.zeros(shape(tensor), "int32") for tensor in model.inputs]
    answers = [ops.ones(shape(tensor)) for tensor in model.outputs]
    labels = [ops.zeros_like(answer[..., :1], "int32") for answer in answers]
    model.compute_loss(x, labels, answers)
    model.compute_metrics(x, labels, answers)
    model.reset_metrics()
    model.optimizer.build(model.trainable_variables)


def answers(model, ids, segments):
    """Its outputs as a list of arrays."""
    columns = {"Input-Token": ids, "Input-Segment": segments, "Input-Masked": np.ones_like(ids)}
    inputs = [columns[tensor.name] for tensor in model.inputs]
    outputs = model(inputs if len(inputs) > 1 else inputs[0], training=False)
    return [keras.ops.convert_to_numpy(output) for output in (outputs if isinstance(outputs, list) else [outputs])]


@contextlib.contextmanager
def initialized_by(values):
    """Initialise the kernels of `get_model` with a function of a shape and the name of a dtype."""
    with pytest.MonkeyPatch.context() as patch:
        for initializer in (keras.initializers.GlorotNormal, keras.initializers.RandomUniform):
            patch.setattr(initializer, "__call__", lambda _, shape, dtype=None: keras.ops.convert_to_tensor(values(shape, dtype)))
        yield


# Lengths of the sequences of each row; some rows end with padding.
ROWS, WIDTH = ((3, 7, 6), (16,), (2, 5, 4, 3)), 16


def sequences(rng, config):
    """Tokens, which of them are predicted, and a draw for each, of every sequence."""
    made = []
    for length in (length for row in ROWS for length in row):
        is_predicted = np.zeros(length, int)
        is_predicted[rng.permutation(length)[: 1 + length // 4]] = 1
        tokens = rng.integers(5, config.vocab_size, length)
        made.append((tokens, is_predicted, rng.integers(0, 1 << DRAW_BITS, length)))
    return made


def laid_out(config, parts, rows, width=WIDTH):
    """Inputs by name, and the labels, of rows that hold these sequences; the second half of each has the last segment id."""
    shape = len(rows), width
    tokens, is_predicted, draws, numbers, segments = (np.full(shape, fill, "int32") for fill in (config.pad_token_id, 0, 0, 0, 0))
    left = iter(parts)
    for row, lengths in enumerate(rows):
        at = 0
        for length in lengths:
            part = slice(at, at + length)
            tokens[row, part], is_predicted[row, part], draws[row, part] = next(left)
            numbers[row, part] = at + 1
            segments[row, at + length // 2 : at + length] = max(config.type_vocab_size - 1, 0)
            at += length
    masked = np.where(is_predicted == 1, 4, tokens).astype("int32")
    names = {
        "Input-Token": masked,
        "Input-Segment": segments,
        "Input-Draw": draws,
        "Input-Masked": is_predicted,
        "Input-Mask": numbers,
    }
    return names, tokens[..., None]


def step(model, inputs, labels, **settings):
    """The loss of a step and the gradient of every weight, by its path."""
    compile_model(model, optimizer=keras.optimizers.SGD(1.0), **settings)
    before = {weight.path: np.array(ops.convert_to_numpy(weight)) for weight in model.trainable_weights}
    loss = model.train_on_batch(tuple(inputs[tensor.name] for tensor in model.inputs), labels)
    after = {weight.path: ops.convert_to_numpy(weight) for weight in model.trainable_weights}
    return np.ravel(loss)[0], {path: before[path] - after[path] for path in before}
