"""A prediction on torch, whose result stays on the device: a GPU still computes it when it is returned."""

import torch


def begin(model, inputs):
    """The outputs of a model for a batch, without gradients; a model that is compiled by `torch.compile` answers itself.

    Args:
        model: a Keras model.
        inputs: arrays.
    """
    if model.jit_compile:
        return model.predict_on_batch(inputs)
    with torch.no_grad():
        return model(inputs, training=False)
