"""A small BERT and batches for it."""

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild import build_model, compile_model, get_model

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
    chosen = np.zeros((batch, LENGTH), int)
    for row in chosen:
        row[1 + rng.permutation(LENGTH - padding - 1)[:masked]] = 1
    labels = rng.integers(5, VOCAB, (batch, LENGTH, 1))
    return (ids, segments, chosen), (labels, rng.integers(0, 2, (batch, 1)))


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
